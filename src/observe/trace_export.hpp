// Turns a rank's logs into tracks of a trace. Each rank is one group, so that the traces of all
// ranks can be merged.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "observe/trace.hpp"
#include "observe/trace_log.hpp"
#include "tutti/units.hpp"

namespace tutti::observe {

/// Converts a rank's clock to the job's: rank 0's clock, relative to `origin`.
struct TraceClock {
  Nanoseconds offset{};  ///< rank 0's clock minus this rank's
  Nanoseconds error{};   ///< largest error of `offset` when it was measured
  Instant origin{};      ///< start of the trace on rank 0's clock

  TraceTime at(Instant local) const { return local + offset - origin; }
};

/// Adds the spans of the logs to the group of the rank. Overlapping spans get separate rows,
/// because a track must not have any; a collective's phases use the row of the collective.
void export_rank(Trace& trace, Rank rank, const std::string& name,
                 std::span<const TraceLog* const> logs, const TraceClock& clock);

}  // namespace tutti::observe
