// Merges the traces of a job's ranks into one on a common clock. In a viewer each rank is a
// process, and an arrow leads from the send of each message to its arrival.
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
  /// Number of spans that are missing because later spans overwrote them.
  std::uint64_t dropped = 0;
  std::uint64_t messages = 0;  ///< number of messages whose send and arrival are both recorded
  /// Upper bound of the error between the clocks of any two ranks, at the time when the clocks were
  /// compared.
  Nanoseconds clock_error{};
  /// The longest time by which a message seems to arrive before its send; 0 if no message does. If
  /// this time exceeds `clock_error`, the clocks have drifted since they were compared.
  Nanoseconds earliest{};
};

/// Merges the trace files of one job in a directory; `job` may be "" if the directory has traces of
/// one job only. Errors (invalid_argument) name the directory, the bad file, or the jobs to choose
/// from.
Result<MergedTrace> merge_traces(const std::string& directory, const std::string& job);

}  // namespace tutti::app
