// Detects whether this process also uses MPI, which then owns the launcher's connection.
#pragma once

namespace tutti::runtime {

enum class MpiPresence {
  absent,
  loaded,   ///< an MPI library is loaded; MPI is not yet initialised, or already finalised
  running,  ///< MPI is initialised and not yet finalised
};

/// Looks for an MPI library among the global symbols of the process, without linking one.
MpiPresence mpi_presence();

}  // namespace tutti::runtime
