// Turns a rank's trace logs into tracks of a trace. Each rank is one group of tracks, so that the
// traces of all ranks can be merged.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "observe/trace.hpp"
#include "observe/trace_log.hpp"
#include "tutti/units.hpp"

namespace tutti::observe {

/// Converts instants of a rank's clock to rank 0's clock, relative to `origin`.
struct TraceClock {
  Nanoseconds offset{};  ///< time by rank 0's clock minus time by this rank's clock
  Nanoseconds error{};   ///< largest error of `offset` at the time of its measurement
  Instant origin{};      ///< start of the trace on rank 0's clock

  TraceTime at(Instant local) const { return local + offset - origin; }
};

/// Adds the spans of the logs to the rank's group of tracks. Spans that overlap get separate
/// tracks; the phases of a collective are on the track of the collective.
void export_rank(Trace& trace, Rank rank, const std::string& name,
                 std::span<const TraceLog* const> logs, const TraceClock& clock);

}  // namespace tutti::observe
