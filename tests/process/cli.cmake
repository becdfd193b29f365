# Tests of the program `tutti` from outside, and of the code that computes its reports. tests/process/CMakeLists.txt
# includes this file.
tutti_python_test(cli_test SCRIPT cli_test.py ARGUMENTS $<TARGET_FILE:tutti>)

tutti_test(cli_parts_test SOURCES cli_parts_test.cpp LINKS tutti_command LABELS process)
