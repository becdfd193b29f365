# Tests of the bootstraps and the launcher with real processes. tests/process/CMakeLists.txt includes this file.
add_executable(bootstrap_probe bootstrap_probe.cpp)
target_link_libraries(bootstrap_probe PRIVATE tutti_all)

find_package(CLI11 REQUIRED)
tutti_test(run_command_test
  SOURCES run_command_test.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/launch/job.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/launch/line_prefixer.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/launch/place.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/launch/process.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/local_job.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/run.cpp
  LINKS CLI11::CLI11
  LABELS process)
target_include_directories(run_command_test PRIVATE ${PROJECT_SOURCE_DIR}/apps/tutti)
target_compile_definitions(run_command_test PRIVATE
  TUTTI_BOOTSTRAP_PROBE="$<TARGET_FILE:bootstrap_probe>")
add_dependencies(run_command_test bootstrap_probe)
