# Tests of the program `tutti` from outside, and of the code that computes its reports. tests/process/CMakeLists.txt
# includes this file.
tutti_python_test(cli_test SCRIPT cli_test.py ARGUMENTS $<TARGET_FILE:tutti>)

find_package(CLI11 REQUIRED)
tutti_test(cli_parts_test
  SOURCES cli_parts_test.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/bench/exercise.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/bench/interface_bytes.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/bench/measurement.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/bench/small_numbers.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/device_probe.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/explain/choice.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/explain/plan.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/info/findings.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/session.cpp
    ${PROJECT_SOURCE_DIR}/apps/tutti/size_text.cpp
  LINKS CLI11::CLI11
  LABELS process)
target_include_directories(cli_parts_test PRIVATE ${PROJECT_SOURCE_DIR}/apps/tutti ${PROJECT_SOURCE_DIR})
