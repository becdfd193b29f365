# Tests of `tutti aggregator` with real processes that join it, kill it and are killed. tests/process/CMakeLists.txt
# includes this file.
add_executable(aggregated_program aggregated_program.cpp)
target_link_libraries(aggregated_program PRIVATE tutti_all)
tutti_python_test(aggregator_test SCRIPT aggregator_test.py ARGUMENTS $<TARGET_FILE:tutti> $<TARGET_FILE:aggregated_program>)
