// What a rank did, span by span, while it was being traced: kept in rings of a fixed size, of which
// the oldest spans make room, and turned into a trace at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::observe {

/// What a span is about; its track follows from it.
enum class TraceKind : std::uint8_t {
  collective,  ///< one from its beginning to its end
  phase,       ///< of a collective
  send,        ///< a message of a task list: from its task's turn until it was handed over
  receive,     ///< a message of a task list: from its task's turn until it was there
  compute,     ///< a copy or a reduction of a task list
  multicast,   ///< this rank's block: from its first chunk sent to its last
  collect,     ///< another rank's block: from its first chunk here to its last
  fetch,       ///< a READ of what was lost
  cutoff,      ///< a mark: what has not come is taken for lost
  drive,       ///< a thread at work on the engine, or asleep
  receive_worker,
};
inline constexpr std::size_t kTraceKinds = 11;

/// "send"
const char* to_string(TraceKind kind);

/// Texts are literals, which outlive every log.
struct TraceSpan {
  TraceKind kind = TraceKind::collective;
  std::uint16_t communicator = 0;
  std::uint32_t epoch = 0;
  const char* name = "";
  const char* detail = "";  ///< "": none
  Instant begin{};
  Instant end{};  ///< `begin`: a mark
  Rank peer = kNoRank;
  std::uint32_t slot = 0;  ///< of a message, or the number of a block
  std::uint64_t bytes = 0;
};

/// A ring of spans. Any thread may add.
class TraceLog {
 public:
  /// Reads the clock of the process, or what stands for it.
  using Clock = Instant (*)();

  TraceLog(std::string name, std::size_t most_spans, Clock clock);
  TraceLog(const TraceLog&) = delete;
  TraceLog& operator=(const TraceLog&) = delete;

  const std::string& name() const { return name_; }
  Instant now() const { return clock_(); }
  void add(const TraceSpan& span);

  struct Content {
    std::vector<TraceSpan> spans;  ///< in the order of their ends
    std::uint64_t dropped = 0;     ///< older ones that made room
  };
  Content content() const;

 private:
  std::string name_;
  std::size_t most_spans_;
  Clock clock_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::vector<TraceSpan> ring_;
  std::uint64_t added_ = 0;
};

/// What one communicator adds to a log. By the engine's thread.
class CommunicatorTrace {
 public:
  /// `members`: its ranks as the whole job numbers them; empty: the same. The log outlives it.
  CommunicatorTrace(TraceLog& log, std::uint16_t communicator, std::vector<Rank> members)
      : log_(log), communicator_(communicator), members_(std::move(members)) {}

  Instant now() const { return log_.now(); }
  /// Fills in the communicator, and names the peer as the job does.
  void add(TraceSpan span);

 private:
  TraceLog& log_;
  std::uint16_t communicator_;
  std::vector<Rank> members_;
};

/// A thread that polls: rounds that found work, one after the other, are one span.
class BusyTrace {
 public:
  /// `log` null: nothing is traced. It outlives this.
  BusyTrace(TraceLog* log, TraceKind kind, const char* thread)
      : log_(log), kind_(kind), thread_(thread) {}
  ~BusyTrace() { polled(false); }
  BusyTrace(const BusyTrace&) = delete;
  BusyTrace& operator=(const BusyTrace&) = delete;

  /// A round is about to begin.
  void polling() {
    if (log_ != nullptr && !busy_) since_ = log_->now();
  }
  /// A round is over, which found work or did not.
  void polled(bool worked) {
    if (log_ == nullptr) return;
    if (busy_ && !worked) add("work", since_);
    busy_ = worked;
  }
  /// Around a sleep.
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
