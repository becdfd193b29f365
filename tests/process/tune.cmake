# `tutti tune`: real jobs that measure, write a table, and go by it. Included by
# tests/process/CMakeLists.txt.
tutti_python_test(tune_test SCRIPT tune_test.py ARGUMENTS $<TARGET_FILE:tutti>)
