# Tests with real processes in a lab of ranks that die, freeze or are cut off. tests/process/CMakeLists.txt includes
# this file.
add_executable(loop_program loop_program.cpp failing_allocation.cpp)
target_link_libraries(loop_program PRIVATE tutti_all)

tutti_test(failure_test SOURCES failure_test.cpp LINKS tutti_command LABELS process TIMEOUT 120)
target_compile_definitions(failure_test PRIVATE TUTTI_LOOP_PROGRAM="$<TARGET_FILE:loop_program>")
add_dependencies(failure_test loop_program)
