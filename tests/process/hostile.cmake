# A job beside a stranger that repeats and changes its datagrams. tests/process/CMakeLists.txt includes this file.
tutti_python_test(hostile_datagrams SCRIPT hostile_datagrams_test.py ARGUMENTS $<TARGET_FILE:loop_program>)

# acceptance/secure/stranger measures a job beside this program.
add_executable(stranger_program stranger_program.cpp)
target_link_libraries(stranger_program PRIVATE tutti_all)
target_include_directories(stranger_program PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/..)

# A stranger that takes the place of a rank at the store of a job.
tutti_python_test(stolen_place SCRIPT stolen_place_test.py ARGUMENTS $<TARGET_FILE:loop_program>)
