// Decides when to ping a silent peer, and when it is lost: if a ping, or another frame that it must
// acknowledge, has had no answer for the whole timeout. The caller asks only while something waits
// for the peer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::device::rc {

class PeerTimeout {
 public:
  explicit PeerTimeout(Nanoseconds timeout) : timeout_(timeout) {}

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
  /// Records that a frame was sent that the peer must acknowledge.
  void on_asked(Instant now) {
    asked_at_ = std::min(asked_at_, now);
    ping_wanted_ = false;
  }
  /// Requests a ping once the peer has been silent for a part of the timeout.
  void on_timer(Instant now) {
    if (now >= ping_at()) ping_wanted_ = true;
  }

  bool expired(Instant now) const { return now >= expires_at(); }
  bool ping_wanted() const { return ping_wanted_; }
  /// kNever if the peer has answered every frame.
  Instant expires_at() const { return asked_at_ == kNever ? kNever : asked_at_ + timeout_; }
  Instant ping_at() const { return std::max(last_heard_, begun_) + timeout_ / kPings; }

 private:
  static constexpr int kPings = 5;

  Nanoseconds timeout_;
  Instant last_heard_{INT64_MIN};
  Instant begun_{INT64_MIN};
  Instant asked_at_ = kNever;  ///< time of the first frame that has no answer yet
  bool ping_wanted_ = false;
};

}  // namespace tutti::device::rc
