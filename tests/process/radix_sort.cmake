# Tests of `radix_sort` with real processes, and of its check on damaged results. tests/process/CMakeLists.txt includes
# this file.
tutti_python_test(radix_sort_test SCRIPT radix_sort_test.py ARGUMENTS $<TARGET_FILE:tutti> $<TARGET_FILE:radix_sort>)
