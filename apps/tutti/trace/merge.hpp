// Merges the traces of a job's ranks: one process per rank on a common clock, and an arrow for each
// message from its send to its arrival.
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
  std::uint32_t size = 0;              ///< ranks of the job
  std::vector<std::uint32_t> missing;  ///< ranks without a file
  std::uint64_t spans = 0;
  std::uint64_t dropped = 0;   ///< spans overwritten by later ones
  std::uint64_t messages = 0;  ///< messages with both ends recorded
  Nanoseconds clock_error{};   ///< clock error of any two ranks when measured
  /// Largest time by which a message appears to arrive before its send; 0: none. A value above
  /// `clock_error` means that the clocks have drifted since.
  Nanoseconds earliest{};
};

/// Merges the files of one job in a directory; `job` may be "" if there is only one. Errors
/// (invalid_argument) name the directory, the file, or the jobs to choose from.
Result<MergedTrace> merge_traces(const std::string& directory, const std::string& job);

}  // namespace tutti::app
