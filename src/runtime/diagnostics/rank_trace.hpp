// The trace of one rank (`TUTTI_TRACE=directory`): spans of its threads, collectives, messages and
// tasks, written to a file after the last of its communicators has been closed. Times are on rank
// 0's clock, so that `tutti trace merge` only has to join the files.
//
// Memory is bounded: 8 MiB for collectives, tasks and the owner of the engine, and 1 MiB for each
// receive worker. If this memory is full, new spans overwrite the oldest ones, and the file states
// the number of overwritten spans.
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
/// file can be created in it.
Result<std::string> trace_directory();

/// Identifies the monotonic clock of this process: equal for processes that read the same clock, 0
/// if unknown.
std::uint64_t clock_identity();

/// The rank to which a trace belongs, and the directory of the trace file.
struct TraceOwner {
  std::string directory;
  std::string job;  ///< name of the job: the same on all ranks, and different for every job
  Rank rank{0};
  std::uint32_t size = 1;
  std::string name;  ///< host and process of the rank, such as "a:4021"
};

class RankTrace {
 public:
  /// `comparison` is the result of the clock exchange with rank 0 and is empty at rank 0;
  /// `own_identity` identifies this rank's clock. If this rank reads the same clock as rank 0, the
  /// clock offset and its error are taken as 0.
  RankTrace(TraceOwner owner, const engine::ClockComparison& comparison,
            std::uint64_t own_identity);

  /// The log of collectives and their tasks.
  observe::TraceLog& tasks() { return tasks_; }
  /// The log of the threads that own the engine. They own it one after the other and share this
  /// log.
  observe::TraceLog& engine_owner() { return engine_owner_; }
  /// Adds a log for another receive worker to this trace. Any thread may call this function.
  observe::TraceLog& add_worker();

  std::string path() const;
  /// Writes the spans recorded so far to the file.
  Status write() const;

 private:
  TraceOwner owner_;
  observe::TraceClock clock_;
  bool same_clock_ = false;
  std::uint32_t exchanges_ = 0;
  observe::TraceLog tasks_;
  observe::TraceLog engine_owner_;
  mutable std::mutex mutex_;  ///< guards workers_
  std::vector<std::unique_ptr<observe::TraceLog>> workers_;
};

}  // namespace tutti::runtime
