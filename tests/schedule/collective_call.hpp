// A call of a collective in memory: buffers with known bytes, a run by the reference interpreter,
// and the comparison with the collective's definition.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "interpreter.hpp"
#include "schedule/schedule.hpp"

namespace tutti::schedule {

struct CallOptions {
  std::uint64_t block_bytes = 8;
  std::uint64_t element_bytes = 1;
  bool in_place = false;
  /// Fold with an operator that does not commute.
  bool ordered_fold = false;
  /// Blocks of the receive buffer differ in size and lie apart (Allgatherv).
  bool varying = false;
  std::uint64_t seed = 1;
};

/// Runs the schedules; returns what went wrong: a standstill, or the first block that is not what
/// the collective's definition says.
Status call(std::span<const Schedule> schedules, const CallOptions& options);

}  // namespace tutti::schedule
