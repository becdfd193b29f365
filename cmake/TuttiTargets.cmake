# One object library a layer, so that the build itself shows who may use whom.

# Flags that every target of Tutti is compiled with.
add_library(tutti_flags INTERFACE)
target_include_directories(tutti_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
target_compile_options(tutti_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -fvisibility=hidden -fno-omit-frame-pointer)
if(TUTTI_SANITIZE)
  # A build with sanitizers takes a third of the time so, and finds the same.
  target_compile_options(tutti_flags INTERFACE -fsanitize=${TUTTI_SANITIZE} -fno-sanitize-recover=all
    -O1 -g1)
  # ThreadSanitizer does not see fences. Ours order a store before a load, so that nobody sleeps
  # through a wake-up; no data is handed over by them.
  if(TUTTI_SANITIZE MATCHES "thread")
    target_compile_options(tutti_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
  # GCC 12 loses track of a variant's alternative in instrumented code, and calls it uninitialised;
  # of a replaced operator new, and calls its delete mismatched; and takes the files that a layer is
  # compiled from at once for headers.
  target_compile_options(tutti_flags INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-mismatched-new-delete -Wno-subobject-linkage>)
  target_link_options(tutti_flags INTERFACE -fsanitize=${TUTTI_SANITIZE})
endif()

if(TUTTI_BUILD_FUZZERS)
  # The layers carry the coverage counters that steer the fuzzer.
  target_compile_options(tutti_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# tutti_layer(NAME [LAB] [FOLDERS sub-folders ...] [USES other layers] [LINKS libraries])
# Declares the sources in a folder, and in its FOLDERS, as the layer NAME, library tutti_NAME (slashes
# become underscores): src/NAME, or NAME itself where it is a folder of sim or studies. LAB: only
# programs and tests of this repository link it; without, libtutti.so contains it.
function(tutti_layer name)
  cmake_parse_arguments(arg "LAB" "" "FOLDERS;USES;LINKS" ${ARGN})
  string(REPLACE "/" "_" id ${name})
  set(root ${PROJECT_SOURCE_DIR}/src/${name})
  if(NOT EXISTS ${root})
    set(root ${PROJECT_SOURCE_DIR}/${name})
  endif()
  set(patterns ${root}/*.cpp)
  foreach(folder ${arg_FOLDERS})
    list(APPEND patterns ${root}/${folder}/*.cpp)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  add_library(tutti_${id} OBJECT ${sources})
  target_link_libraries(tutti_${id} PUBLIC tutti_flags fmt::fmt)
  foreach(used ${arg_USES})
    string(REPLACE "/" "_" used_id ${used})
    target_link_libraries(tutti_${id} PUBLIC tutti_${used_id})
  endforeach()
  target_link_libraries(tutti_${id} PUBLIC ${arg_LINKS})
  # With sanitizers, and for the fuzzers, compiling is the longest part of testing: many files at
  # once, but in layers whose files use a short name each for its own.
  if(TUTTI_SANITIZE AND NOT id MATCHES "^(wire|sim_simulation)$")
    set_target_properties(tutti_${id} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  endif()
  if(arg_LAB)
    set_property(GLOBAL APPEND PROPERTY TUTTI_LAB_LAYERS tutti_${id})
  else()
    set_property(GLOBAL APPEND PROPERTY TUTTI_LAYERS tutti_${id})
  endif()
endfunction()

# tutti_python_test(NAME SCRIPT file [ARGUMENTS programs ...])
# A test from the outside; it carries the name of its folder, as tutti_test's do.
function(tutti_python_test name)
  cmake_parse_arguments(arg "" "SCRIPT" "ARGUMENTS" ${ARGN})
  get_filename_component(label ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  add_test(NAME ${name} COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT} ${arg_ARGUMENTS})
  # What tests/requirements.py ends with where every test of the file was skipped.
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS ${label} SKIP_RETURN_CODE 77)
endfunction()

# tutti_test(NAME SOURCES ... [LABELS label] [TIMEOUT seconds] [FILTER tests]): one GoogleTest binary
# over all of Tutti. Without a label its tests carry the name of their folder: unit, protocol,
# process ... FILTER, and HOST_FILTER on the host device: which of them run, as GoogleTest writes it.
function(tutti_test name)
  cmake_parse_arguments(arg "ALSO_ON_HOST_DEVICE;ALSO_BY_UC" "TIMEOUT;FILTER;HOST_FILTER" "SOURCES;LABELS;LINKS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_LABELS)
    get_filename_component(arg_LABELS ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE tutti_all ${arg_LINKS} tutti_test_main)
  # What hangs says where before it is ended.
  math(EXPR hang_seconds "${arg_TIMEOUT} - 20")
  set(environment "TUTTI_TEST_HANG_SECONDS=${hang_seconds}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_FILTER "${arg_FILTER}"
    PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" ENVIRONMENT "TUTTI_DEVICE=ip;${environment}")
  if(arg_ALSO_ON_HOST_DEVICE)
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX host_device.
      TEST_LIST ${name}_host_tests TEST_FILTER "${arg_HOST_FILTER}"
      PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" ENVIRONMENT "TUTTI_DEVICE=host;${environment}")
  endif()
  if(arg_ALSO_BY_UC)
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX uc. TEST_LIST ${name}_uc_tests
      PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
      ENVIRONMENT "TUTTI_DEVICE=ip;TUTTI_MULTICAST=uc;${environment}")
  endif()
endfunction()
