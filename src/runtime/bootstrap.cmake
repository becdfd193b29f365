# The bootstraps of the runtime layer: include() before tutti_layer(runtime),
# in the same CMakeLists.txt; the names are relative to this folder.
set(TUTTI_BOOTSTRAP_SOURCES
  bootstrap_callback.cpp
  bootstrap_detect.cpp
  bootstrap_env.cpp
  bootstrap_environment.cpp
  bootstrap_file.cpp
  bootstrap_frame.cpp
  bootstrap_local.cpp
  bootstrap_mpi_presence.cpp
  bootstrap_pmi.cpp
  bootstrap_pmix.cpp
  bootstrap_rendezvous.cpp
  bootstrap_server.cpp
  bootstrap_slurm.cpp
  bootstrap_socket.cpp
  bootstrap_store.cpp
  bootstrap_text.cpp
  bootstrap_unique_id.cpp)
set(TUTTI_BOOTSTRAP_LINKS OpenSSL::Crypto Threads::Threads ${CMAKE_DL_LIBS})

# PMIx: only its headers at build time; the library is looked for at run time.
find_path(TUTTI_PMIX_INCLUDE_DIR pmix.h
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pmix2/include
  DOC "Directory of pmix.h (Debian: libpmix-dev); without it Tutti does not speak PMIx")
mark_as_advanced(TUTTI_PMIX_INCLUDE_DIR)
if(TUTTI_PMIX_INCLUDE_DIR)
  set_source_files_properties(runtime/bootstrap_pmix.cpp PROPERTIES
    COMPILE_DEFINITIONS TUTTI_HAVE_PMIX
    COMPILE_OPTIONS "-isystem;${TUTTI_PMIX_INCLUDE_DIR}")
endif()
