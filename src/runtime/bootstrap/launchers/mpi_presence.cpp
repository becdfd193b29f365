#include "runtime/bootstrap/launchers/mpi_presence.hpp"

#include <dlfcn.h>

namespace tutti::runtime {
namespace {

/// The signature of MPI_Initialized and MPI_Finalized, which is the same in every implementation.
using Query = int (*)(int* flag);

bool ask(const char* name) {
  const auto query = reinterpret_cast<Query>(dlsym(RTLD_DEFAULT, name));
  int flag = 0;
  return query != nullptr && query(&flag) == 0 && flag != 0;
}

}  // namespace

MpiPresence mpi_presence() {
  if (dlsym(RTLD_DEFAULT, "MPI_Initialized") == nullptr) return MpiPresence::absent;
  const bool running = ask("MPI_Initialized") && !ask("MPI_Finalized");
  return running ? MpiPresence::running : MpiPresence::loaded;
}

}  // namespace tutti::runtime
