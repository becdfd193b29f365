// The traces of a job's ranks as one: a process for each rank on one clock, and an arrow for each
// message from where it was sent to where it came.
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
  std::vector<std::uint32_t> missing;  ///< those without a file
  std::uint64_t spans = 0;
  std::uint64_t dropped = 0;   ///< spans that made room for later ones
  std::uint64_t messages = 0;  ///< whose two ends are both there
  Nanoseconds clock_error{};   ///< of any two ranks, when it was measured
  /// The most by which a message seems to have come before it was sent, 0: none did. More than
  /// `clock_error`: the clocks have drifted apart since.
  Nanoseconds earliest{};
};

/// Merges the files of one job in a directory; `job` "": the only one there is. Errors
/// (invalid_argument) name the directory, the file, or the jobs to choose from.
Result<MergedTrace> merge_traces(const std::string& directory, const std::string& job);

}  // namespace tutti::app
