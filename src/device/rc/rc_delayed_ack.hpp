// The ACK that this side owes its peer. It is sent at once, or after a delay in which another
// frame of this side may carry it (RFC 5681 4.2).
//
// The ACK of a message is normally sent at once. If the last messages had prompt replies, the ACK
// waits for the reply, because a separate ACK frame would leave before the reply and delay it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::device::rc {

class DelayedAck {
 public:
  /// Number of received frames after which an ACK is due even if none was requested.
  static constexpr std::uint32_t kEvery = 16;
  /// An ACK waits for the reply once this many messages in a row had prompt replies.
  static constexpr std::uint32_t kPromptReplies = 3;

  /// An ACK that was not requested waits for `delay`, the ACK of a message at most for
  /// `reply_wait`.
  DelayedAck(Nanoseconds delay, Nanoseconds reply_wait) : delay_(delay), reply_wait_(reply_wait) {}

  /// Makes an ACK due now, even if no frame has arrived.
  void send_at_once() { at_once_ = true; }
  /// Makes an ACK due now, as the answer to a question of the peer.
  void answer_at_once() { at_once_ = answers_question_ = true; }
  /// Records that a new frame arrived; `at_once` makes the ACK due now.
  void on_arrival(Instant now, bool at_once) {
    ++arrivals_;
    if (at_once || arrivals_ >= kEvery) at_once_ = true;
    due_at_ = std::min(due_at_, now + delay_);
  }
  /// Records that the last frame of a message arrived.
  void on_message(Instant now) {
    if (message_at_ != kNever) prompt_replies_ = 0;  // the previous message has had no reply
    message_at_ = now;
    const bool awaits_reply = prompt_replies_ >= kPromptReplies;
    on_arrival(now, !awaits_reply);
    if (awaits_reply) due_at_ = std::min(due_at_, now + reply_wait_);
  }
  /// Records that this side sends a new frame, which may be the reply to a message.
  void on_new_frame(Instant now) {
    if (message_at_ == kNever) return;
    const bool prompt = now - message_at_ < reply_wait_;
    prompt_replies_ = prompt ? std::min(prompt_replies_ + 1, kPromptReplies) : 0;
    message_at_ = kNever;
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
  /// True if this ACK reports a new arrival without delay.
  bool reports_arrival_at_once() const { return arrivals_ > 0 && at_once_; }
  bool answers_question() const { return answers_question_; }

 private:
  Nanoseconds delay_;
  Nanoseconds reply_wait_;
  std::uint32_t arrivals_ = 0;  ///< frames received since the last ACK was sent
  bool at_once_ = false;
  bool answers_question_ = false;
  Instant due_at_ = kNever;
  Instant message_at_ = kNever;  ///< arrival of a message that has had no reply; kNever: none
  std::uint32_t prompt_replies_ = 0;
};

}  // namespace tutti::device::rc
