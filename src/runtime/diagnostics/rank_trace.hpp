// The trace of one rank (`TUTTI_TRACE=directory`): what its threads, collectives, messages and
// tasks were doing when, written as a file of its own when its communicators are gone. All ranks'
// times are rank 0's, so that `tutti trace merge` only puts the files side by side.
//
// Bounded: 128 Ki spans of 56 bytes of collectives and tasks, and 16 Ki of whoever drives: 8 MiB;
// and 1 MiB more for each receive worker. Then the oldest make room, and are counted in the file.
// Writing takes some times as much for a moment.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/core/clock_exchange.hpp"
#include "observe/trace_export.hpp"
#include "observe/trace_log.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// What `TUTTI_TRACE` says; "": nothing is traced. Errors (invalid_argument) name the variable and
/// the path: it is no directory, or no file can be made there.
Result<std::string> trace_directory();

/// A number of the monotonic clock of this process: equal for processes that read the same. 0: not
/// known.
std::uint64_t clock_identity();

/// Whose trace it is.
struct TraceOwner {
  std::string directory;
  std::string job;  ///< the same on all ranks, and another for every job
  Rank rank{0};
  std::uint32_t size = 1;
  std::string name;  ///< "a:4021"
};

class RankTrace {
 public:
  /// `comparison`: with rank 0's clock; nothing is compared at rank 0. `own_identity`: of this
  /// rank's. Where both clocks are one there is neither offset nor error.
  RankTrace(TraceOwner owner, const engine::ClockComparison& comparison,
            std::uint64_t own_identity);

  /// Of collectives and their tasks.
  observe::TraceLog& tasks() { return tasks_; }
  /// Of the threads that drive, one at a time.
  observe::TraceLog& driver() { return driver_; }
  /// One more, of a receive worker. Any thread.
  observe::TraceLog& add_worker();

  std::string path() const;
  /// Writes what there is by now.
  Status write() const;

 private:
  TraceOwner owner_;
  observe::TraceClock clock_;
  bool same_clock_ = false;
  std::uint32_t exchanges_ = 0;
  observe::TraceLog tasks_;
  observe::TraceLog driver_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::vector<std::unique_ptr<observe::TraceLog>> workers_;
};

}  // namespace tutti::runtime
