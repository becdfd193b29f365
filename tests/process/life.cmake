# Tests of processes that fork or exit in the middle of a job. tests/process/CMakeLists.txt includes this file.
add_executable(life_program life_program.cpp)
target_link_libraries(life_program PRIVATE tutti_all)
tutti_python_test(life_processes SCRIPT life_test.py ARGUMENTS $<TARGET_FILE:life_program>)
