// The environment as the bootstraps read it: replaceable in tests, strict about numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// The value of a variable; nothing where it is not set or empty.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The variables of this process.
Environment process_environment();

/// A variable that must be a number of at most `max`; nothing where it is not set. The failure
/// names the variable and its value.
Result<std::optional<std::uint64_t>> read_number(const Environment& environment,
                                                 const std::string& name, std::uint64_t max);

/// The rank of this process, and the size of its job.
struct LauncherRank {
  Rank rank{0};
  std::uint32_t size = 1;
};

/// A rank and a size from two variables: both, or neither. One without the other, a bad number, or
/// a rank that is not below the size is a failure naming the variable.
Result<std::optional<LauncherRank>> read_place(const Environment& environment,
                                               const std::string& rank_name,
                                               const std::string& size_name);

/// The first of RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, and in a step started by srun SLURM_PROCID,
/// that is set, with its size.
Result<std::optional<LauncherRank>> launcher_place(const Environment& environment);

/// The identity of this run: TUTTI_RUN_ID, else torch's TORCHELASTIC_RUN_ID with the restart count,
/// else empty.
std::string run_identity(const Environment& environment);

}  // namespace tutti::runtime
