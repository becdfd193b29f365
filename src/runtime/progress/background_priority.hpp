// The priority of the background thread: a nice value and, for a share of the time, real time.
#pragma once

#include <cstdint>

#include "runtime/progress/realtime_budget.hpp"
#include "runtime/progress/thread_priority.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Methods that change the priority are called by the thread itself.
class BackgroundPriority {
 public:
  /// `share`: of the time that may pass at real-time priority, 0 to 1.
  BackgroundPriority(const PriorityRequest& request, double share)
      : request_(request), budget_(share, kMaxAtOnce) {}

  /// At the start of the thread. Asks only for a nice value that the user demanded: threads above
  /// the normal priority slow blocking collectives down (docs/decisions/017).
  Result<GrantedPriority> start();
  /// Once the application computes beside a collective: asks for what start() left out. Returns
  /// whether the priority may have changed; the second call does nothing.
  bool raise() { return !raised_ && raise_once(); }
  bool may_be_realtime() const { return may_be_realtime_; }
  /// Moves to real time or back by the budget, if real time is allowed; returns whether the budget
  /// ran out.
  bool enforce_budget(Instant now, bool worked);
  template <typename Work>
  void run_at_normal(Work&& work) {
    const bool realtime = granted_.realtime;
    if (realtime) set(false);
    work();
    if (realtime) set(true);
  }
  /// As the counter background_priority says it: steps of nice below 0; 100: real time.
  std::uint64_t counter() const;

 private:
  /// Longest time at real-time priority without a pause.
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
