# A search for keys in all that whole jobs send and leave. tests/process/CMakeLists.txt includes this file.
# The sanitizers' own libraries must come before any other, so that nothing stands before libcrypto.
if(TUTTI_SANITIZE)
  return()
endif()
add_executable(capture_program capture_program.cpp)
target_link_libraries(capture_program PRIVATE tutti_all)
add_library(key_witness MODULE key_witness.cpp)
target_link_libraries(key_witness PRIVATE tutti_flags OpenSSL::Crypto)
tutti_python_test(capture_test SCRIPT capture_test.py ARGUMENTS $<TARGET_FILE:capture_program> $<TARGET_FILE:key_witness>
  $<TARGET_FILE:tutti>)
