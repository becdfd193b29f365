# A job beside a stranger that repeats and changes its datagrams. tests/process/CMakeLists.txt includes this file.
tutti_python_test(hostile_datagrams SCRIPT hostile_datagrams_test.py ARGUMENTS $<TARGET_FILE:loop_program>)
