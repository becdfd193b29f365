# Ranks of one host over shared memory, with real processes. Included by tests/process/CMakeLists.txt
# after failure.cmake, which makes loop_program.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME host_device_processes COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/host_device_test.py $<TARGET_FILE:tutti> $<TARGET_FILE:loop_program>)
  set_tests_properties(host_device_processes PROPERTIES TIMEOUT 300 LABELS process)
endif()
