// The trace of one rank (`TUTTI_TRACE=directory`): spans of its threads, collectives, messages and
// tasks, written to a file of its own when its communicators are gone. Times are on rank 0's clock,
// so that `tutti trace merge` only joins the files.
//
// Memory is bounded: 8 MiB for collectives, tasks and the owner of the engine, and 1 MiB for each
// receive worker. Then new spans replace the oldest, which the file counts.
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

/// The directory that TUTTI_TRACE names; empty: no trace. Fails with Code::invalid_argument if no
/// file can be created there.
Result<std::string> trace_directory();

/// Identifies the monotonic clock of this process: equal for processes that read the same clock; 0:
/// not known.
std::uint64_t clock_identity();

/// The rank of a trace, and its file.
struct TraceOwner {
  std::string directory;
  std::string job;  ///< the same on all ranks, and another for every job
  Rank rank{0};
  std::uint32_t size = 1;
  std::string name;  ///< "a:4021"
};

class RankTrace {
 public:
  /// `comparison`: with rank 0's clock; empty at rank 0. `own_identity`: this rank's clock. If both
  /// ranks read one clock, offset and error are 0.
  RankTrace(TraceOwner owner, const engine::ClockComparison& comparison,
            std::uint64_t own_identity);

  /// Of collectives and their tasks.
  observe::TraceLog& tasks() { return tasks_; }
  /// Of the owners of the engine, one at a time.
  observe::TraceLog& driver() { return driver_; }
  /// One more, of a receive worker. Any thread.
  observe::TraceLog& add_worker();

  std::string path() const;
  /// Writes the spans so far.
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
