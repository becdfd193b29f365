# Tests of `TUTTI_TRACE` and `tutti trace` with real jobs whose traces are merged and read. tests/process/CMakeLists.txt
# includes this file.
tutti_python_test(trace_test SCRIPT trace_test.py ARGUMENTS $<TARGET_FILE:tutti>)
