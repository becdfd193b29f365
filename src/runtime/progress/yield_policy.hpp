// The yield policy decides when a waiting thread lets other threads run: after which time of work,
// and after which time of polling without work. With more ranks than cores, a spinning rank delays
// the rank for which it waits.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "runtime/progress/clock.hpp"
#include "runtime/progress/engine_poller.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Times after which the owner of the engine yields its core or sleeps.
struct CoreTimes {
  /// Time for which a thread polls an idle network before it sleeps. It is no shorter on a
  /// shared core, because the yields after each poll cost less than a sleep and its wake-up.
  Nanoseconds spin{100'000};
  /// Time for which a waiting thread works before it yields. If an operation asks that all ranks of
  /// a core begin together, a thread that has not slept during this wait yields after any work,
  /// because the rank that sends its first data last delays all ranks.
  Nanoseconds yield_after = Nanoseconds::max();
  /// Time of polling without work between two yields. A yield is a system call: it lasts as long
  /// as several polls, and data that arrive meanwhile must wait.
  Nanoseconds yield_interval{};
  /// Share of the time, 0 to 1, that the thread may spend at real-time priority.
  double realtime_share = 0;
};

/// The yield policy of one engine. Thread-safe, except for functions that only the owner of the
/// engine calls.
class YieldPolicy {
 public:
  explicit YieldPolicy(const CoreTimes& times) : times_(times) {}

  /// Time of work after which a waiting thread yields. Only the owner of the engine calls this.
  Nanoseconds yield_after(bool slept, const EnginePoller& engine) const {
    return !slept && engine.begins_together() ? Nanoseconds(0) : times_.yield_after;
  }
  /// Time of polling without work after which a waiting thread yields: 0 if the last yield was
  /// followed by work. Any thread may call this.
  Nanoseconds yield_interval() const {
    return last_yield_helped_.load(std::memory_order_relaxed) ? Nanoseconds(0)
                                                              : times_.yield_interval;
  }
  /// Records whether the first poll after a yield found work. Any thread may call this.
  void polled_after_yield(bool worked) {
    if (last_yield_helped_.load(std::memory_order_relaxed) != worked)
      last_yield_helped_.store(worked, std::memory_order_relaxed);
  }
  /// Time of polling without work after which a waiting thread sleeps. Only the owner of the engine
  /// calls this.
  Nanoseconds spin(bool slept, const EnginePoller& engine) const {
    if (engine.only_slot_exchanges()) return kInlineSpin;
    return slept ? std::min(times_.spin, kSpinAfterSleep) : times_.spin;
  }

  /// The present turn of a waiting thread on its core, which begins with the wait and anew after
  /// each yield.
  class CoreTurn {
   public:
    CoreTurn(YieldPolicy& policy, Instant begin) : policy_(policy), begin_(begin) {}

    /// Must be called after each poll.
    void polled(bool worked) {
      if (std::exchange(yielded_, false)) policy_.polled_after_yield(worked);
    }
    Nanoseconds length(Instant at) const { return at - begin_; }
    /// Yields the core if the turn has lasted for the yield interval.
    void end_if_due(Instant at) {
      if (length(at) < policy_.yield_interval()) return;
      ::sched_yield();
      yielded_ = true;
      begin_ = now();
    }
    void begin(Instant at) { begin_ = at; }

   private:
    YieldPolicy& policy_;
    Instant begin_;
    bool yielded_ = false;  ///< whether no poll has followed the last yield
  };

  /// Longest time for which a thread polls slot exchanges while the peers have not published their
  /// blocks.
  static constexpr Nanoseconds kInlineSpin{200'000};

 private:
  /// Longest time of polling without work if the thread has already slept during this wait. The
  /// thread then waits for a slow rank, which may need the core on which the thread polls.
  static constexpr Nanoseconds kSpinAfterSleep{5'000};

  CoreTimes times_;
  /// True if work followed the last yield. The kernel has then probably put the awaited rank on the
  /// core of this thread, although other cores are idle, so that polling only delays this rank.
  std::atomic<bool> last_yield_helped_{false};
};

}  // namespace tutti::runtime
