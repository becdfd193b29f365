// The ACK that this side owes its peer: at once, or after a delay in which a frame of this side may
// carry it (RFC 5681 4.2).
#pragma once

#include <algorithm>
#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::device::rc {

class DelayedAck {
 public:
  /// Frames after which an ACK is due without being asked for.
  static constexpr std::uint32_t kEvery = 16;

  explicit DelayedAck(Nanoseconds delay) : delay_(delay) {}

  /// Makes an ACK due now, whether or not a frame arrived.
  void send_at_once() { at_once_ = true; }
  /// A new frame arrived.
  void on_arrival(Instant now, bool at_once) {
    ++arrivals_;
    if (at_once || arrivals_ >= kEvery) at_once_ = true;
    due_at_ = std::min(due_at_, now + delay_);
  }
  void on_sent() {
    arrivals_ = 0;
    at_once_ = false;
    due_at_ = kNever;
  }

  bool due(Instant now) const { return at_once_ || due_at_ <= now; }
  /// The end of the delay; kNever if no frame arrived since the last ACK.
  Instant due_at() const { return due_at_; }
  bool owed() const { return at_once_ || due_at_ != kNever; }
  /// True if a frame arrived since the last ACK.
  bool reports_arrival() const { return arrivals_ > 0; }

 private:
  Nanoseconds delay_;
  std::uint32_t arrivals_ = 0;  ///< frames since the last ACK
  bool at_once_ = false;
  Instant due_at_ = kNever;
};

}  // namespace tutti::device::rc
