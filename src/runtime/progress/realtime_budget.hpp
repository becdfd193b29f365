// How long a thread may go before all others: as long as it takes little of the time.
#pragma once

#include <algorithm>

#include "tutti/units.hpp"

namespace tutti::runtime {

/// A share of the time, saved up to a limit. Who has spent it all stands back until half of the
/// limit is saved again. Used by one thread.
class RealtimeBudget {
 public:
  /// `share`: of the time, 0 to 1. `most`: what may be spent at once.
  RealtimeBudget(double share, Nanoseconds most) : share_(share), most_(most), left_(most) {}

  /// The thread has worked, or slept, since the last call; returns whether it may go first from now
  /// on. The first call begins.
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
