// The spans of a rank that is being traced, in rings of fixed size that drop the oldest spans. When
// tracing ends, the spans are exported to a trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::observe {

/// The subject of a span, which determines the track that shows it.
enum class TraceKind : std::uint8_t {
  collective,  ///< a collective from start to end
  phase,       ///< one phase of a collective
  /// Sending of a schedule's message, from the start of the task until the message was posted.
  send,
  /// Reception of a schedule's message, from the start of the task until the message arrived.
  receive,
  compute,    ///< one copy or reduction of a schedule
  multicast,  ///< sending of this rank's block, from the first chunk to the last
  collect,    ///< reception of another rank's block, from the first chunk to the last
  fetch,      ///< a READ of lost chunks
  cutoff,     ///< event without duration: missing chunks are declared lost
  owner,      ///< a thread's work on the engine, or its sleep
  receive_worker,
};
inline constexpr std::size_t kTraceKinds = 11;

/// The name of a kind, such as "send".
const char* to_string(TraceKind kind);

/// One span. Its texts are string literals, which outlive every log.
struct TraceSpan {
  TraceKind kind = TraceKind::collective;
  std::uint16_t communicator = 0;
  std::uint32_t epoch = 0;
  const char* name = "";
  const char* detail = "";  ///< further text of the span; empty: none
  Instant begin{};
  Instant end{};  ///< end of the span; equal to `begin` for an event without duration
  Rank peer = kNoRank;
  std::uint32_t slot = 0;  ///< match slot of a message, or index of a block
  std::uint64_t bytes = 0;
};

/// A ring of spans, to which any thread may add.
class TraceLog {
 public:
  /// Reads the clock of the process, or of the simulation.
  using Clock = Instant (*)();

  TraceLog(std::string name, std::size_t max_spans, Clock clock);
  TraceLog(const TraceLog&) = delete;
  TraceLog& operator=(const TraceLog&) = delete;

  const std::string& name() const { return name_; }
  Instant now() const { return clock_(); }
  void add(const TraceSpan& span);

  struct Content {
    std::vector<TraceSpan> spans;  ///< ordered by end
    std::uint64_t dropped = 0;     ///< number of dropped spans; the oldest are dropped first
  };
  Content content() const;

 private:
  std::string name_;
  std::size_t max_spans_;
  Clock clock_;
  mutable std::mutex mutex_;  ///< guards `ring_` and `added_`
  std::vector<TraceSpan> ring_;
  std::uint64_t added_ = 0;
};

/// Adds the spans of one communicator to a log. Only the owner of the engine uses it.
class CommunicatorTrace {
 public:
  /// `members` has the job rank of each rank of the communicator; it is empty if every rank has the
  /// same number in the communicator and in the job. The log must outlive this object.
  CommunicatorTrace(TraceLog& log, std::uint16_t communicator, std::vector<Rank> members)
      : log_(log), communicator_(communicator), members_(std::move(members)) {}

  Instant now() const { return log_.now(); }
  /// Adds a span to the log, with the number of this communicator. The span's peer is converted to
  /// a rank of the job.
  void add(TraceSpan span);

 private:
  TraceLog& log_;
  std::uint16_t communicator_;
  std::vector<Rank> members_;
};

/// Traces a polling thread: consecutive rounds that found work form one span.
class BusyTrace {
 public:
  /// `log` must outlive this object; null: no span is recorded.
  BusyTrace(TraceLog* log, TraceKind kind, const char* thread)
      : log_(log), kind_(kind), thread_(thread) {}
  ~BusyTrace() { polled(false); }
  BusyTrace(const BusyTrace&) = delete;
  BusyTrace& operator=(const BusyTrace&) = delete;

  /// Call `polling` before a round of polling.
  void polling() {
    if (log_ != nullptr && !busy_) since_ = log_->now();
  }
  /// Call `polled` after a round of polling; `worked` is true if the round found work.
  void polled(bool worked) {
    if (log_ == nullptr) return;
    if (busy_ && !worked) add("work", since_);
    busy_ = worked;
  }
  /// Call `falls_asleep` before a sleep and `wakes` after it.
  Instant falls_asleep() const { return log_ == nullptr ? Instant{} : log_->now(); }
  void wakes(Instant slept_since) {
    if (log_ != nullptr) add("sleep", slept_since);
  }

 private:
  void add(const char* what, Instant since);

  TraceLog* log_;
  TraceKind kind_;
  const char* thread_;
  bool busy_ = false;
  Instant since_{};
};

}  // namespace tutti::observe
