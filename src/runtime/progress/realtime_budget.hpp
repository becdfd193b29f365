// Limits the time that a thread runs at real-time priority to a share of all time.
#pragma once

#include <algorithm>

#include "tutti/units.hpp"

namespace tutti::runtime {

/// A share of the time, saved up to a limit. Once it is spent, real time is off until half of the
/// limit is saved again. Used by one thread.
class RealtimeBudget {
 public:
  /// `share`: of the time, 0 to 1. `most`: the limit.
  RealtimeBudget(double share, Nanoseconds most) : share_(share), most_(most), left_(most) {}

  /// The thread has worked, or slept, since the last call; returns whether it may run in real time
  /// from now on. The first call starts the clock.
  bool pass(Instant now, bool worked) {
    const Nanoseconds passed = seen_ == kNever ? Nanoseconds(0) : now - seen_;
    seen_ = now;
    left_ +=
        Nanoseconds(static_cast<Nanoseconds::rep>(static_cast<double>(passed.count()) * share_));
    if (worked) left_ -= passed;
    left_ = std::clamp(left_, Nanoseconds(0), most_);
    if (left_ == Nanoseconds(0)) {
      first_ = false;
    } else if (left_ >= most_ / 2) {
      first_ = true;
    }
    return first_;
  }

 private:
  double share_;
  Nanoseconds most_;
  Nanoseconds left_;
  Instant seen_ = kNever;
  bool first_ = true;
};

}  // namespace tutti::runtime
