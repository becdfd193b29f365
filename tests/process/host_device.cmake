# Tests with real processes of ranks that share memory on one host. tests/process/CMakeLists.txt includes this file
# after failure.cmake, which makes loop_program.
tutti_python_test(host_device_processes SCRIPT host_device_test.py ARGUMENTS $<TARGET_FILE:tutti> $<TARGET_FILE:loop_program>)
