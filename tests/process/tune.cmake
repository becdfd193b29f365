# `tutti tune`: real jobs that measure, write a table, and go by it. Included by
# tests/process/CMakeLists.txt.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME tune_test COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/tune_test.py $<TARGET_FILE:tutti>)
  set_tests_properties(tune_test PROPERTIES TIMEOUT 300 LABELS process)
endif()
