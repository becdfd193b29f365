// The bootstrap under launchers that speak PMIx: Open MPI's mpirun, prterun, srun --mpi=pmix.
#pragma once

#include <memory>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/launchers/launcher_variables.hpp"

namespace tutti::runtime {

/// Whether this build knows PMIx (its headers were there); the library itself is looked for at run
/// time.
bool pmix_built_in();

/// Rank 0 publishes the unique id of a store through PMIx; everything else goes through that store.
/// In a process that uses MPI too, only between MPI_Init and MPI_Finalize.
Result<std::unique_ptr<Bootstrap>> bootstrap_from_pmix(const Environment& environment,
                                                       Nanoseconds timeout);

}  // namespace tutti::runtime
