// Decides which frames of the reliable connections are also multicast because a peer did not answer.
// The cause is most often the link of this host: when it comes back, unicast waits for link addresses.
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

  /// Puts unicast in doubt.
  void begin(Instant now) { until_ = now + kAddressResolution; }
  /// Returns the frames to a rank, whose address is `peer`, that are also multicast now. All ranks
  /// receive them, so new frames are among them only if the kernel holds back those to `peer`.
  Copies copies(Instant now, Rank to, const SocketAddress& peer) {
    if (now >= until_) return Copies::none;
    Answer& answer = answers_[index(to)];
    if (now >= answer.valid_until) {
      answer = {now + kAnswerValid, link_address_missing(interface_index_, peer)};
    }
    return answer.missing ? Copies::all : Copies::repeated;
  }

 private:
  /// The kernel asks for a link address once a second.
  static constexpr Nanoseconds kAddressResolution{1'200'000'000};
  static constexpr Nanoseconds kAnswerValid{5'000'000};

  /// The kernel's answer for one rank.
  struct Answer {
    Instant valid_until{INT64_MIN};
    bool missing = false;
  };

  std::uint32_t interface_index_;
  Instant until_{INT64_MIN};
  std::vector<Answer> answers_;
};

}  // namespace tutti::device::ip
