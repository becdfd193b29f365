// Merges the traces of a job's ranks: one process per rank on a common clock, with an arrow for
// each message from its send to its arrival.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "observe/trace.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::app {

struct MergedTrace {
  observe::Trace trace{100'000'000};
  std::string job;
  std::uint32_t size = 0;              ///< number of ranks of the job
  std::vector<std::uint32_t> missing;  ///< ranks without a trace file
  std::uint64_t spans = 0;
  std::uint64_t dropped = 0;   ///< number of spans that later spans overwrote
  std::uint64_t messages = 0;  ///< number of messages of which both ends are recorded
  Nanoseconds clock_error{};   ///< largest clock error between any two ranks when it was measured
  /// The largest time by which a message appears to arrive before its send; 0 if none does. A value
  /// above `clock_error` means that the clocks have drifted since the error was measured.
  Nanoseconds earliest{};
};

/// Merges the trace files of one job in a directory; `job` may be "" if the directory has only one
/// job. Errors (invalid_argument) name the directory, the file, or the jobs to choose from.
Result<MergedTrace> merge_traces(const std::string& directory, const std::string& job);

}  // namespace tutti::app
