// Chooses the bootstrap of a process from its environment.
#pragma once

#include <memory>
#include <optional>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/launchers/launcher_variables.hpp"
#include "tutti/options.hpp"

namespace tutti::runtime {

/// Chooses the first of these bootstraps that the environment describes:
///   1. TUTTI_BOOTSTRAP: env://, tcp://host:port, file://directory, pmix://, pmi://, slurm://,
///      single://. Rank and size for tcp and file come from the launcher's variables.
///   2. RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun, `tutti run`).
///   3. PMIX_RANK, PMIX_NAMESPACE (Open MPI, prterun, srun --mpi=pmix).
///   4. PMI_FD, PMI_RANK, PMI_SIZE (MPICH).
///   5. OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE with MASTER_ADDR and MASTER_PORT.
///   6. SLURM_PROCID, SLURM_NTASKS in a step started by srun.
///   7. A job of one process.
/// If a set of variables is incomplete, the error names the missing variable. description() of the
/// result names the chosen bootstrap. TUTTI_BOOTSTRAP_TIMEOUT_S overrides `timeout`. If `job_key`
/// or the environment contains a key, a store at an address from the variables speaks TLS.
Result<std::unique_ptr<Bootstrap>> detect(Nanoseconds timeout = std::chrono::seconds(30),
                                          const Environment& environment = process_environment(),
                                          const std::optional<JobKey>& job_key = {});

}  // namespace tutti::runtime
