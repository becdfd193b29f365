// The priority of the progress thread: a nice value and, within a budget, real-time priority.
#pragma once

#include <cstdint>

#include "runtime/progress/realtime_budget.hpp"
#include "runtime/progress/thread_priority.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// The priority of one thread. Only this thread may call the methods that change its priority.
class BackgroundPriority {
 public:
  /// `share` is the share of the time, 0 to 1, that the thread may spend at real-time priority.
  BackgroundPriority(const PriorityRequest& request, double share)
      : request_(request), budget_(share, kMaxAtOnce) {}

  /// Sets the priority with which the thread starts. Asks the kernel only for a nice value that the
  /// user demanded, because library threads above normal priority slow blocking collectives down
  /// (docs/decisions/017).
  Result<GrantedPriority> start();
  /// Asks the kernel for the requested nice value and real-time priority. The thread calls this
  /// function when the application computes during a collective; only the first call has an effect.
  /// Returns true if the priority may have changed.
  bool raise() { return !raised_ && raise_once(); }
  bool may_be_realtime() const { return may_be_realtime_; }
  /// Turns real-time priority on or off according to the budget. Returns true if the budget has
  /// just run out.
  bool enforce_budget(Instant now, bool worked);
  template <typename Work>
  void run_at_normal(Work&& work) {
    const bool realtime = granted_.realtime;
    if (realtime) set(false);
    work();
    if (realtime) set(true);
  }
  /// The value of the counter background_priority: the number of nice steps below 0, or 100 for
  /// real-time priority.
  std::uint64_t counter() const;

 private:
  /// Longest time for which the thread works at real-time priority without sleeping in between.
  static constexpr Nanoseconds kMaxAtOnce{5'000'000};

  bool raise_once();
  void set(bool realtime);

  PriorityRequest request_;
  GrantedPriority granted_;
  bool raised_ = false;
  bool may_be_realtime_ = false;
  RealtimeBudget budget_;
};

}  // namespace tutti::runtime
