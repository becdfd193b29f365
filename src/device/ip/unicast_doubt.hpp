// Decides which frames of the reliable connections are also multicast. If a peer does not answer,
// unicast is in doubt for a while: it may not reach the peer. The usual cause is that the link of
// this host was down: after the link has come up, unicast waits for address resolution (ARP or
// neighbour discovery), but multicast does not.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::device::ip {

/// The frames to a peer that are also multicast.
enum class MulticastToo : std::uint8_t {
  none,
  repeated,  ///< ACKs and retransmissions
  all,
};

class UnicastDoubt {
 public:
  explicit UnicastDoubt(std::uint32_t ranks) : answers_(ranks) {}

  /// Puts unicast in doubt until `now` + kAddressResolution.
  void begin(Instant now) { until_ = now + kAddressResolution; }
  /// Returns which frames to the rank `to` are also multicast now. `held_back` must return true if
  /// the kernel holds back unicast datagrams to the rank; its answer is used for the time
  /// kAnswerValid. A multicast frame loads every rank, so new frames are multicast only while
  /// unicast is held back.
  template <typename HeldBack>
  MulticastToo multicast_too(Instant now, Rank to, HeldBack&& held_back) {
    if (now >= until_) return MulticastToo::none;
    Answer& answer = answers_[index(to)];
    if (now >= answer.valid_until) {
      answer = {now + kAnswerValid, std::forward<HeldBack>(held_back)()};
    }
    return answer.held_back ? MulticastToo::all : MulticastToo::repeated;
  }

 private:
  /// Time for which unicast stays in doubt. The kernel repeats a request for a link address after
  /// one second, so this time is longer.
  static constexpr Nanoseconds kAddressResolution{1'200'000'000};
  static constexpr Nanoseconds kAnswerValid{5'000'000};

  /// The last answer to the question whether the kernel holds back datagrams to one rank.
  struct Answer {
    Instant valid_until{INT64_MIN};
    bool held_back = false;
  };

  Instant until_{INT64_MIN};
  std::vector<Answer> answers_;
};

}  // namespace tutti::device::ip
