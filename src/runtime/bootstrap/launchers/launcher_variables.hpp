// Reads the environment variables of launchers. Tests pass their own Environment instead of the
// variables of the process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Looks up a variable; nothing if the variable is unset or empty.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// Reads the variables of this process.
Environment process_environment();

/// Reads a variable that must be a number of at most `max`; nothing if it is not set. An error
/// names the variable and its value.
Result<std::optional<std::uint64_t>> read_number(const Environment& environment,
                                                 const std::string& name, std::uint64_t max);

/// The rank of this process and the number of ranks of its job, from a launcher's variables.
struct LauncherRank {
  Rank rank{0};
  std::uint32_t size = 1;
};

/// Reads rank and size from two variables; nothing if neither is set. Fails if only one of them is
/// set, if a value is not a number, or if the rank is not below the size; the error names the
/// variable.
Result<std::optional<LauncherRank>> read_place(const Environment& environment,
                                               const std::string& rank_name,
                                               const std::string& size_name);

/// Reads rank and size from the first of these variables that is set: RANK, OMPI_COMM_WORLD_RANK,
/// PMI_RANK and, in a step started by srun, SLURM_PROCID.
Result<std::optional<LauncherRank>> launcher_place(const Environment& environment);

/// The identity of this run: the value of TUTTI_RUN_ID or, if it is not set, the run id and the
/// restart count of torchrun. Empty if neither is set.
std::string run_identity(const Environment& environment);

}  // namespace tutti::runtime
