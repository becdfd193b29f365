// A rank's logs as tracks of a trace: one group a rank, so that the traces of all ranks can be put
// side by side.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "observe/trace.hpp"
#include "observe/trace_log.hpp"
#include "tutti/units.hpp"

namespace tutti::observe {

/// How a rank's clock becomes the job's: rank 0's, counted from `origin`.
struct TraceClock {
  Nanoseconds offset{};  ///< rank 0's clock less this rank's
  Nanoseconds error{};   ///< the offset's, at most, when it was measured
  Instant origin{};      ///< on rank 0's clock

  TraceTime at(Instant local) const { return local + offset - origin; }
};

/// Adds what the logs hold to the group of that rank. Spans that overlap, which a track must not
/// have, get rows beside each other; a collective's phases lie in the row of their collective.
void export_rank(Trace& trace, Rank rank, const std::string& name,
                 std::span<const TraceLog* const> logs, const TraceClock& clock);

}  // namespace tutti::observe
