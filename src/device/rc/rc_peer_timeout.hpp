// Decides when a silent peer is pinged, and when it is lost. A peer is lost if it has not answered
// a ping, or another frame that it must acknowledge, for the whole timeout. The caller applies
// these decisions only while something waits for the peer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::device::rc {

class PeerTimeout {
 public:
  explicit PeerTimeout(Nanoseconds timeout) : timeout_(timeout) {}

  /// The silence after which a peer is pinged.
  static Nanoseconds ping_interval(Nanoseconds timeout) { return timeout / kPings; }

  /// Records that something waits for the peer from now on; earlier silence does not count.
  void begin(Instant now) {
    begun_ = now;
    asked_at_ = kNever;
  }
  void on_heard(Instant now) {
    last_heard_ = now;
    asked_at_ = kNever;
    ping_wanted_ = false;
  }
  /// Records that this side sent a frame that the peer must acknowledge.
  void on_asked(Instant now) {
    asked_at_ = std::min(asked_at_, now);
    ping_wanted_ = false;
  }
  /// Records that the peer answered a question, which proves that packets pass in both directions.
  void on_answer(Instant now) { answered_at_ = now; }
  /// Returns true a few times in the last part of the timeout. Each time, the caller questions
  /// other ranks to find out whether this rank itself is cut off.
  bool doubts(Instant now) {
    if (now < doubt_at()) return false;
    next_doubt_ = now + timeout_ / kDoubts;
    return true;
  }
  /// True if the last part of the timeout has begun.
  bool in_doubt(Instant now) const { return now >= doubt_begins(); }
  /// Requests a ping once the peer has been silent for a part of the timeout.
  void on_timer(Instant now) {
    if (now >= ping_at()) ping_wanted_ = true;
  }

  bool expired(Instant now) const { return now >= expires_at(); }
  bool ping_wanted() const { return ping_wanted_; }
  /// Time at which the peer counts as lost; kNever if it has answered every frame.
  Instant expires_at() const { return asked_at_ == kNever ? kNever : asked_at_ + timeout_; }
  Instant doubt_at() const {
    return asked_at_ == kNever ? kNever : std::max(doubt_begins(), next_doubt_);
  }
  Instant doubt_begins() const {
    return asked_at_ == kNever ? kNever : asked_at_ + timeout_ - timeout_ / kDoubtPart;
  }
  bool awaits_answer() const { return asked_at_ != kNever; }
  Instant answered_at() const { return answered_at_; }
  Instant ping_at() const { return std::max(last_heard_, begun_) + ping_interval(timeout_); }

 private:
  static constexpr int kPings = 5;
  static constexpr int kDoubtPart = 8;
  static constexpr int kDoubts = 40;

  Nanoseconds timeout_;
  Instant last_heard_{INT64_MIN};
  Instant begun_{INT64_MIN};
  Instant asked_at_ = kNever;  ///< time of the first frame that has no answer yet
  Instant answered_at_{INT64_MIN};
  Instant next_doubt_{INT64_MIN};
  bool ping_wanted_ = false;
};

}  // namespace tutti::device::rc
