# A mix of all collectives, for the lab's tests and acceptance/secure/no_multicast. tests/process/CMakeLists.txt includes
# this file.
add_executable(mix_program mix_program.cpp)
target_link_libraries(mix_program PRIVATE tutti_all)
