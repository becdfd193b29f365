# `TUTTI_TRACE` and `tutti trace`: real jobs whose traces are merged and read. Included by
# tests/process/CMakeLists.txt.
tutti_python_test(trace_test SCRIPT trace_test.py ARGUMENTS $<TARGET_FILE:tutti>)
