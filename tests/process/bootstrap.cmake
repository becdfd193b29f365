# Tests of the bootstraps and the launcher with real processes. tests/process/CMakeLists.txt includes this file.
add_executable(bootstrap_probe bootstrap_probe.cpp)
target_link_libraries(bootstrap_probe PRIVATE tutti_all)

tutti_test(run_command_test SOURCES run_command_test.cpp LINKS tutti_command LABELS process)
target_compile_definitions(run_command_test PRIVATE
  TUTTI_BOOTSTRAP_PROBE="$<TARGET_FILE:bootstrap_probe>")
add_dependencies(run_command_test bootstrap_probe)
