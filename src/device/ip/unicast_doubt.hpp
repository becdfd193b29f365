// Decides which frames of the reliable connections are also multicast. After a peer has not
// answered, unicast is in doubt for a while. Most often the link of this host was down: after it
// has come up, unicast waits for link addresses, but multicast does not.
#pragma once

#include <cstdint>
#include <vector>

#include "device/ip/link_address.hpp"
#include "device/ip/socket.hpp"
#include "tutti/units.hpp"

namespace tutti::device::ip {

/// The frames to a peer that are also multicast.
enum class Copies : std::uint8_t {
  none,
  repeated,  ///< ACKs and retransmissions
  all,
};

class UnicastDoubt {
 public:
  UnicastDoubt(std::uint32_t interface_index, std::uint32_t ranks)
      : interface_index_(interface_index), answers_(ranks) {}

  /// Puts unicast in doubt, from `now` on for the time kAddressResolution.
  void begin(Instant now) { until_ = now + kAddressResolution; }
  /// Returns which frames to the rank `to`, at the address `peer`, are also multicast now. Every
  /// rank must receive a multicast frame, so new frames are multicast only if the kernel holds back
  /// datagrams to `peer`.
  Copies copies(Instant now, Rank to, const SocketAddress& peer) {
    if (now >= until_) return Copies::none;
    Answer& answer = answers_[index(to)];
    if (now >= answer.valid_until) {
      answer = {now + kAnswerValid, link_address_missing(interface_index_, peer)};
    }
    return answer.missing ? Copies::all : Copies::repeated;
  }

 private:
  /// Time for which unicast stays in doubt; longer than the second between two requests of the
  /// kernel for a link address.
  static constexpr Nanoseconds kAddressResolution{1'200'000'000};
  static constexpr Nanoseconds kAnswerValid{5'000'000};

  /// The answer of the kernel whether the link address of one rank is missing.
  struct Answer {
    Instant valid_until{INT64_MIN};
    bool missing = false;
  };

  std::uint32_t interface_index_;
  Instant until_{INT64_MIN};
  std::vector<Answer> answers_;
};

}  // namespace tutti::device::ip
