# The sources of the lab (hosts as network namespaces on a snooping bridge), for apps/tutti and
# tests/lab.
set(TUTTI_LAB_INCLUDE_DIR ${PROJECT_SOURCE_DIR}/apps/tutti)  # for #include "lab/lab.hpp"
set(TUTTI_LAB_SOURCES
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/aggregators.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/batches.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/cores.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/keeper.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/lab.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/options.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/port_bytes.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/rules.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/runner.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/state.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/lab/support.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/launch/job.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/launch/line_prefixer.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/launch/place.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/launch/process.cpp
  ${PROJECT_SOURCE_DIR}/apps/tutti/launch/remote_socket.cpp)
set(TUTTI_LAB_COMMAND_SOURCES ${PROJECT_SOURCE_DIR}/apps/tutti/lab/lab_command.cpp)  # source that needs CLI11
