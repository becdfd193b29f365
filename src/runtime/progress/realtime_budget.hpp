// Limits the time that a thread runs at real-time priority to a share of all time.
#pragma once

#include <algorithm>

#include "tutti/units.hpp"

namespace tutti::runtime {

/// A budget of time for work at real-time priority, used by one thread. It grows by a share of the
/// elapsed time, up to a limit, and shrinks while the thread works. Once it is zero, real-time
/// priority stays off until the budget has grown to half of the limit.
class RealtimeBudget {
 public:
  /// The budget grows by `share` (0 to 1) times the elapsed time, up to `most`.
  RealtimeBudget(double share, Nanoseconds most) : share_(share), most_(most), left_(most) {}

  /// Records whether the thread has worked (`worked`) or slept since the last call. Returns true if
  /// the thread may have real-time priority from now on. The first call starts the measurement.
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
