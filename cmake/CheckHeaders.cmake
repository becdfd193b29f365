# Compiles every header alone: target check_headers, part of the default build with
# -DTUTTI_CHECK_HEADERS=ON (preset headers). A header that relies on includes of another fails here.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  include/*.hpp include/*.h src/*.hpp sim/*.hpp studies/*.hpp)
set(alone "")
foreach(header ${headers})
  string(REGEX REPLACE "^(include|src)/" "" name ${header})
  if(header MATCHES "\\.h$")
    set(languages c cpp)
  else()
    set(languages cpp)
  endif()
  foreach(language ${languages})
    set(source ${PROJECT_BINARY_DIR}/check_headers/${header}.${language})
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${name}\"\n#include \"${name}\"\n")
    list(APPEND alone ${source})
  endforeach()
endforeach()
add_library(check_headers OBJECT ${alone})
target_link_libraries(check_headers PRIVATE tutti_flags fmt::fmt OpenSSL::SSL OpenSSL::Crypto
  nlohmann_json::nlohmann_json Threads::Threads)
