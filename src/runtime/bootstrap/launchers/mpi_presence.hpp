// Whether MPI lives in this process too, and so owns the launcher's connection.
#pragma once

namespace tutti::runtime {

enum class MpiPresence {
  absent,
  loaded,   ///< a library of MPI is loaded but not initialized (or finalized already)
  running,  ///< between MPI_Init and MPI_Finalize
};

/// Looks for an MPI library among the global symbols of the process; links none.
MpiPresence mpi_presence();

}  // namespace tutti::runtime
