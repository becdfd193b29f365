# Tests with real processes in a lab of ranks that die, freeze or are cut off. tests/process/CMakeLists.txt includes
# this file.
add_executable(loop_program loop_program.cpp)
target_link_libraries(loop_program PRIVATE tutti_all)

include(${PROJECT_SOURCE_DIR}/apps/tutti/lab/sources.cmake)
tutti_test(failure_test SOURCES failure_test.cpp ${TUTTI_LAB_SOURCES}
  LINKS nlohmann_json::nlohmann_json LABELS process TIMEOUT 120)
target_include_directories(failure_test PRIVATE ${TUTTI_LAB_INCLUDE_DIR})
target_compile_definitions(failure_test PRIVATE TUTTI_LOOP_PROGRAM="$<TARGET_FILE:loop_program>")
add_dependencies(failure_test loop_program)
