// The bootstrap in a step started by srun, without PMI: rank 0, on the first host of the list, runs
// the store.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/launchers/launcher_variables.hpp"

namespace tutti::runtime {

/// The first host of a Slurm host list: of "node[07-12,20],gpu3", for example, it is "node07".
Result<std::string> first_slurm_host(std::string_view list);

/// The bootstrap by SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_NODELIST (or SLURM_JOB_NODELIST). The
/// port is computed from the job and step numbers. MASTER_ADDR, TUTTI_MASTER_PORT and MASTER_PORT
/// override host and port. `key` is the key of the job, if it has one.
Result<std::unique_ptr<Bootstrap>> bootstrap_from_slurm(const Environment& environment,
                                                        Nanoseconds timeout,
                                                        std::optional<crypto::Secret> key);

}  // namespace tutti::runtime
