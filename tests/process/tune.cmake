# Tests of `tutti tune` with real jobs that measure, write a table and use it. tests/process/CMakeLists.txt includes
# this file.
tutti_python_test(tune_test SCRIPT tune_test.py ARGUMENTS $<TARGET_FILE:tutti>)
