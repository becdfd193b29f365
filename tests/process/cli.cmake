# The program `tutti`: from the outside, and what its reports are computed by. Included by
# tests/process/CMakeLists.txt.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME cli_test COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/cli_test.py $<TARGET_FILE:tutti>)
  set_tests_properties(cli_test PROPERTIES TIMEOUT 300 LABELS process)
endif()

find_package(CLI11 REQUIRED)
tutti_test(cli_parts_test
  SOURCES cli_parts_test.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/bench/exercise.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/bench/interface_bytes.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/bench/measurement.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/bench/small_numbers.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/explain/choice.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/explain/plan.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/info/findings.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/session.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/size_text.cpp
  LINKS CLI11::CLI11
  LABELS process)
target_include_directories(cli_parts_test PRIVATE ${PROJECT_SOURCE_DIR}/apps/tutti ${PROJECT_SOURCE_DIR})
