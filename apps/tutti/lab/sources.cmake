# The lab: hosts as network namespaces on a snooping bridge. Included by apps/tutti and tests/lab.
set(TUTTI_LAB_INCLUDE_DIR ${PROJECT_SOURCE_DIR}/apps/tutti)  # "lab/lab.hpp"
set(TUTTI_LAB_SOURCES
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/aggregators.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/batches.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/cores.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/keeper.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/lab.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/options.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/place.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/process.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/remote_socket.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/rules.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/runner.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/state.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/support.cpp)
set(TUTTI_LAB_COMMAND_SOURCES ${PROJECT_SOURCE_DIR}/apps/tutti/lab/lab_command.cpp)  # needs CLI11
