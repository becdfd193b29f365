# Tests of processes that fork or exit in the middle of a job. tests/process/CMakeLists.txt includes this file.
add_executable(life_program life_program.cpp)
target_include_directories(life_program PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(life_program PRIVATE tutti_all)
tutti_python_test(life_processes SCRIPT life_test.py ARGUMENTS $<TARGET_FILE:life_program>)

# Every 150th allocation fails; acceptance/secure/process lets each of them fail.
add_executable(allocation_program allocation_program.cpp failing_allocation.cpp)
target_link_libraries(allocation_program PRIVATE tutti_all)
tutti_python_test(allocation_failures SCRIPT allocation_test.py ARGUMENTS $<TARGET_FILE:allocation_program> 150)
