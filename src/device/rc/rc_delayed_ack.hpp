// The ACK that this side owes its peer. It is sent at once, or after a delay in which another
// frame of this side may carry it (RFC 5681 4.2).
#pragma once

#include <algorithm>
#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::device::rc {

class DelayedAck {
 public:
  /// Number of received frames after which an ACK is due even if none was requested.
  static constexpr std::uint32_t kEvery = 16;

  explicit DelayedAck(Nanoseconds delay) : delay_(delay) {}

  /// Makes an ACK due now, whether or not a frame arrived.
  void send_at_once() { at_once_ = true; }
  /// Makes an ACK due now, as the answer to a question of the peer.
  void answer_at_once() { at_once_ = answers_question_ = true; }
  /// Records that a new frame arrived; `at_once` makes the ACK due now.
  void on_arrival(Instant now, bool at_once) {
    ++arrivals_;
    if (at_once || arrivals_ >= kEvery) at_once_ = true;
    due_at_ = std::min(due_at_, now + delay_);
  }
  void on_sent() {
    arrivals_ = 0;
    at_once_ = answers_question_ = false;
    due_at_ = kNever;
  }

  bool due(Instant now) const { return at_once_ || due_at_ <= now; }
  /// The end of the ACK delay; kNever if no frame arrived since the last ACK.
  Instant due_at() const { return due_at_; }
  bool owed() const { return at_once_ || due_at_ != kNever; }
  /// True if a frame has arrived since the last ACK was sent.
  bool reports_arrival() const { return arrivals_ > 0; }
  bool answers_question() const { return answers_question_; }

 private:
  Nanoseconds delay_;
  std::uint32_t arrivals_ = 0;  ///< frames received since the last ACK was sent
  bool at_once_ = false;
  bool answers_question_ = false;
  Instant due_at_ = kNever;
};

}  // namespace tutti::device::rc
