# `radix_sort`: real processes that sort, and a check that sees what is wrong. Included by
# tests/process/CMakeLists.txt.
tutti_python_test(radix_sort_test SCRIPT radix_sort_test.py ARGUMENTS $<TARGET_FILE:tutti> $<TARGET_FILE:radix_sort>)
