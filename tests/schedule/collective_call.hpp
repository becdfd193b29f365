// A call of a collective in memory: buffers with known bytes, a run by the reference interpreter,
// and a comparison with the definition of the collective.
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
  /// Whether reductions use an operator that does not commute.
  bool ordered_fold = false;
  /// Whether blocks differ in size. Buffers of several blocks then also have gaps between blocks.
  bool varying = false;
  std::uint64_t seed = 1;
};

/// Runs the schedules. Error: the run came to a standstill, or a block differs from the definition
/// of the collective.
Status call(std::span<const Schedule> schedules, const CallOptions& options);

}  // namespace tutti::schedule
