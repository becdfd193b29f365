// The bootstrap under launchers that speak PMIx: Open MPI's mpirun, prterun, srun --mpi=pmix.
#pragma once

#include <memory>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/launchers/launcher_variables.hpp"

namespace tutti::runtime {

/// True if this build had the PMIx headers. The library itself is looked up at run time.
bool pmix_built_in();

/// Rank 0 publishes the unique id of a store through PMIx; all further data go through that store.
/// A process that also uses MPI may call this only between MPI_Init and MPI_Finalize.
Result<std::unique_ptr<Bootstrap>> bootstrap_from_pmix(const Environment& environment,
                                                       Nanoseconds timeout);

}  // namespace tutti::runtime
