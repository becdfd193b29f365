# `radix_sort`: real processes that sort, and a check that sees what is wrong. Included by
# tests/process/CMakeLists.txt.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME radix_sort_test COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/radix_sort_test.py $<TARGET_FILE:tutti> $<TARGET_FILE:radix_sort>)
  set_tests_properties(radix_sort_test PROPERTIES TIMEOUT 300 LABELS process)
endif()
