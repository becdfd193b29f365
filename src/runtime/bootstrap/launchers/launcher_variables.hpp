// The environment variables that the bootstraps read. Tests can replace the environment, and
// numbers are checked strictly.
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

/// The rank of this process and the size of its job, as a launcher gives them.
struct LauncherRank {
  Rank rank{0};
  std::uint32_t size = 1;
};

/// Reads rank and size from two variables; nothing if neither is set. Fails if only one of them is
/// set, for a bad number, or for a rank that is not below the size; the error names the variable.
Result<std::optional<LauncherRank>> read_place(const Environment& environment,
                                               const std::string& rank_name,
                                               const std::string& size_name);

/// Reads rank and size from the first of these variables that is set: RANK, OMPI_COMM_WORLD_RANK,
/// PMI_RANK and, in a step started by srun, SLURM_PROCID.
Result<std::optional<LauncherRank>> launcher_place(const Environment& environment);

/// The identity of this run: TUTTI_RUN_ID, else torch's TORCHELASTIC_RUN_ID with the restart count,
/// else empty.
std::string run_identity(const Environment& environment);

}  // namespace tutti::runtime
