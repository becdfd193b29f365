# Ranks of one host over shared memory, with real processes. Included by tests/process/CMakeLists.txt
# after failure.cmake, which makes loop_program.
tutti_python_test(host_device_processes SCRIPT host_device_test.py ARGUMENTS $<TARGET_FILE:tutti> $<TARGET_FILE:loop_program>)
