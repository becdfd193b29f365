# `TUTTI_TRACE` and `tutti trace`: real jobs whose traces are merged and read. Included by
# tests/process/CMakeLists.txt.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME trace_test COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/trace_test.py $<TARGET_FILE:tutti>)
  set_tests_properties(trace_test PROPERTIES TIMEOUT 300 LABELS process)
endif()
