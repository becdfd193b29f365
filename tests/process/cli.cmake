# The program `tutti`: from the outside, and what its reports are computed by. Included by
# tests/process/CMakeLists.txt.
tutti_python_test(cli_test SCRIPT cli_test.py ARGUMENTS $<TARGET_FILE:tutti>)

tutti_test(cli_parts_test SOURCES cli_parts_test.cpp LINKS tutti_command LABELS process)
