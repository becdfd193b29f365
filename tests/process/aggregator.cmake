# `tutti aggregator`: real processes that join it, kill it and are killed. Included by
# tests/process/CMakeLists.txt.
add_executable(aggregated_program aggregated_program.cpp)
target_link_libraries(aggregated_program PRIVATE tutti_all)
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME aggregator_test COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/aggregator_test.py $<TARGET_FILE:tutti>
    $<TARGET_FILE:aggregated_program>)
  set_tests_properties(aggregator_test PROPERTIES TIMEOUT 300 LABELS process)
endif()
