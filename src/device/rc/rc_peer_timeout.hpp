// Decides from the silence of a peer when to ping it, and when it is lost. The caller asks only
// while something waits for the peer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::device::rc {

class PeerTimeout {
 public:
  explicit PeerTimeout(Nanoseconds timeout) : timeout_(timeout) {}

  /// Records that something waits for the peer from now on; earlier silence does not count.
  void begin(Instant now) { begun_ = now; }
  void on_heard(Instant now) {
    last_heard_ = now;
    ping_wanted_ = false;
  }
  /// Records that a frame was sent that the peer must acknowledge; it serves as a ping.
  void on_pinged() { ping_wanted_ = false; }
  /// Requests a ping once the peer has been silent for a part of the timeout.
  void on_timer(Instant now) {
    if (now - silent_since() >= timeout_ / kPings) ping_wanted_ = true;
  }

  bool expired(Instant now) const { return now - silent_since() >= timeout_; }
  bool ping_wanted() const { return ping_wanted_; }
  Instant expires_at() const { return silent_since() + timeout_; }
  Instant ping_at() const { return silent_since() + timeout_ / kPings; }

 private:
  static constexpr int kPings = 5;

  Instant silent_since() const { return std::max(last_heard_, begun_); }

  Nanoseconds timeout_;
  Instant last_heard_{INT64_MIN};
  Instant begun_{INT64_MIN};
  bool ping_wanted_ = false;
};

}  // namespace tutti::device::rc
