# One object library per layer, so that the build enforces the allowed uses between layers.

# Flags of every target of Tutti.
add_library(tutti_flags INTERFACE)
target_include_directories(tutti_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
# A section for each function, so that the linker drops the functions that no program of ours calls.
target_compile_options(tutti_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -fvisibility=hidden -fno-omit-frame-pointer -ffunction-sections -fdata-sections)
if(TUTTI_SANITIZE)
  # AddressSanitizer does not see an index beyond the size of a container but within its capacity.
  target_compile_definitions(tutti_flags INTERFACE _GLIBCXX_ASSERTIONS)
  # -Og builds a third faster than -O1 and finds the same errors; the tests mostly wait.
  target_compile_options(tutti_flags INTERFACE -fsanitize=${TUTTI_SANITIZE} -fno-sanitize-recover=all
    -Og -g1)
  # ThreadSanitizer does not model fences. Ours order a store before later accesses, so that no
  # wake-up is missed and no READ of memory in use again counts; they hand over no data.
  if(TUTTI_SANITIZE MATCHES "thread")
    target_compile_options(tutti_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
  # GCC 12 reports false errors: an uninitialised variant in instrumented code, and a mismatched
  # delete of a replaced operator new.
  target_compile_options(tutti_flags INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-mismatched-new-delete>)
  target_link_options(tutti_flags INTERFACE -fsanitize=${TUTTI_SANITIZE})
endif()

if(TUTTI_BUILD_FUZZERS)
  # The layers carry the coverage counters that guide the fuzzer.
  target_compile_options(tutti_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# tutti_layer(NAME [LAB] [FOLDERS sub-folders ...] [USES other layers] [LINKS libraries])
# Declares the sources in a folder and its FOLDERS as the layer NAME, library tutti_NAME (slashes
# become underscores): src/NAME, or NAME itself if it is a folder of sim or studies. LAB: linked
# only by programs and tests of this repository; without it libtutti.so contains the layer.
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
  # Layers whose files reuse short names are compiled file by file, and so are layers of which the
  # planted bugs of tests/swarm replace a source; builds with sanitizers plant none.
  set(separate "wire|sim_simulation|studies_.*")
  if(NOT TUTTI_SANITIZE)
    string(APPEND separate "|protocol|device_.*|hierarchy|engine")
  endif()
  if(TUTTI_UNITY AND NOT id MATCHES "^(${separate})$")
    set_target_properties(tutti_${id} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    # GCC takes the sources of such a piece for headers, in which nothing may be anonymous.
    target_compile_options(tutti_${id} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  if(arg_LAB)
    set_property(GLOBAL APPEND PROPERTY TUTTI_LAB_LAYERS tutti_${id})
  else()
    set_property(GLOBAL APPEND PROPERTY TUTTI_LAYERS tutti_${id})
  endif()
endfunction()

# Adds to the target the list of the algorithms, one for each file COLLECTIVE_NAME.cpp in src/collectives.
function(tutti_algorithm_list target)
  set(collectives "barrier|broadcast|allgather|gather|scatter|alltoall|reduce|allreduce")
  get_target_property(sources ${target} SOURCES)
  set(TUTTI_ALGORITHM_DECLARATIONS "")
  set(TUTTI_ALGORITHM_NAMES "")
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    if(name MATCHES "^(${collectives})_")
      string(APPEND TUTTI_ALGORITHM_DECLARATIONS "AlgorithmEntries ${name}_entries();\n")
      string(APPEND TUTTI_ALGORITHM_NAMES "      ${name}_entries,\n")
    endif()
  endforeach()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/algorithm_list.cpp.in
    ${PROJECT_BINARY_DIR}/generated/algorithm_list.cpp @ONLY)
  target_sources(${target} PRIVATE ${PROJECT_BINARY_DIR}/generated/algorithm_list.cpp)
endfunction()

# tutti_python_test(NAME SCRIPT file [ARGUMENTS programs ...])
# A test by a Python script; it has the label of its folder, like a tutti_test.
function(tutti_python_test name)
  cmake_parse_arguments(arg "" "SCRIPT" "ARGUMENTS" ${ARGN})
  get_filename_component(label ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  add_test(NAME ${name} COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT} ${arg_ARGUMENTS})
  # Exit status of tests/requirements.py if every test of the file was skipped.
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS ${label} SKIP_RETURN_CODE 77
    COST 100 PROCESSORS 2)
endfunction()

add_custom_target(single_threaded_tests)

# tutti_test(NAME SOURCES ... [LABELS label] [TIMEOUT seconds] [PROCESSORS number] [FILTER tests]
# [SINGLE_THREADED]): one GoogleTest binary linked with all of Tutti. Without a label its tests carry the
# name of their folder. FILTER, and HOST_FILTER on the host device, select tests in GoogleTest's syntax.
# With ThreadSanitizer only target `single_threaded_tests` builds a SINGLE_THREADED test.
function(tutti_test name)
  cmake_parse_arguments(arg "ALSO_ON_HOST_DEVICE;ALSO_BY_UC;SINGLE_THREADED" "TIMEOUT;PROCESSORS;FILTER;HOST_FILTER" "SOURCES;LABELS;LINKS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  if(NOT arg_LABELS)
    get_filename_component(arg_LABELS ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE tutti_all ${arg_LINKS} tutti_test_main)
  if(TARGET tutti_test_headers)
    target_precompile_headers(${name} REUSE_FROM tutti_test_headers)
  endif()
  if(arg_SINGLE_THREADED AND TUTTI_SANITIZE MATCHES "thread")
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(single_threaded_tests ${name})
  endif()
  # A test that hangs prints its stacks before it is ended.
  math(EXPR hang_seconds "${arg_TIMEOUT} - 20")
  set(environment "TUTTI_TEST_HANG_SECONDS=${hang_seconds}")
  set(properties TIMEOUT ${arg_TIMEOUT} PROCESSORS ${arg_PROCESSORS} LABELS "${arg_LABELS}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_FILTER "${arg_FILTER}"
    PROPERTIES ${properties} ENVIRONMENT "TUTTI_DEVICE=ip;${environment}")
  if(arg_ALSO_ON_HOST_DEVICE)
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX host_device.
      TEST_LIST ${name}_host_tests TEST_FILTER "${arg_HOST_FILTER}"
      PROPERTIES ${properties} ENVIRONMENT "TUTTI_DEVICE=host;${environment}")
  endif()
  if(arg_ALSO_BY_UC)
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX uc. TEST_LIST ${name}_uc_tests
      PROPERTIES ${properties} ENVIRONMENT "TUTTI_DEVICE=ip;TUTTI_MULTICAST=uc;${environment}")
  endif()
endfunction()
