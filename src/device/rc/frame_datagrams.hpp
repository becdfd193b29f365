// Encodes and checks the datagrams that carry the frames of one endpoint's connections. The wire
// header of a datagram has a counter, which grows by one with each datagram to the same peer, and a
// tag over header and frame. All devices that send frames in datagrams use this format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/rc/rc_frame.hpp"
#include "tutti/units.hpp"
#include "wire/arrival_check.hpp"
#include "wire/header.hpp"
#include "wire/tag_keys.hpp"

namespace tutti::device::rc {

class FrameDatagrams {
 public:
  /// Size in bytes of the longest frame that is copied completely behind the wire header.
  static constexpr std::size_t kShortFrameBytes = 256;
  /// Largest size in bytes of the head of a datagram: the wire header and the copied part of the
  /// frame.
  static constexpr std::size_t kMaxHeadBytes = wire::kHeaderBytes + kShortFrameBytes;

  /// A datagram to be sent: `head_bytes` bytes in the caller's memory, then `rest`, which is user
  /// memory and valid as long as the frame's payload.
  struct Outgoing {
    std::size_t head_bytes = 0;
    std::span<const std::byte> rest;
  };
  /// A datagram that has passed all checks: a frame, or a probe of the path.
  struct Received {
    Rank source = kNoRank;
    bool probe = false;
    std::span<const std::byte> frame;
  };

  /// The datagrams of rank `me` of `ranks` ranks; `communicator` is the communicator's number.
  FrameDatagrams(Rank me, std::uint32_t ranks, std::uint16_t communicator)
      : me_(me), communicator_(communicator), sent_(ranks), arrivals_(ranks) {}

  /// Sets the tag keys of all datagrams; without this call, datagrams carry a CRC instead of a tag.
  void set_tag_keys(const wire::TagKeys& keys) {
    keys_ = keys;
    arrivals_.use(keys);
  }
  wire::IntegrityKind integrity_kind() const { return keys_.kind(); }

  /// Writes the head of the next datagram for `peer` into `head`, which has room for kMaxHeadBytes.
  Outgoing encode(Rank peer, const OutgoingFrame& frame, std::byte* head);
  /// Writes the wire header of a probe for `peer` into `head`; `padding` is the probe's payload.
  void encode_probe(Rank peer, std::span<const std::byte> padding, std::byte* head);
  /// Checks a received datagram; if a check fails, returns nothing and counts the datagram in
  /// `counters`. `from_host_of(rank)` must tell whether the datagram came from the host of that
  /// rank; the tag is computed only if it did.
  template <typename FromHostOf>
  std::optional<Received> decode(std::span<const std::byte> datagram,
                                 const FromHostOf& from_host_of, EndpointCounters& counters) {
    const auto header = wire::decode(datagram);
    if (header && index(header->source) < sent_.size() && from_host_of(header->source))
      return accept(*header, datagram, counters);
    ++counters.rejected_foreign;
    return std::nullopt;
  }

 private:
  std::optional<Received> accept(const wire::Header& header, std::span<const std::byte> datagram,
                                 EndpointCounters& counters);
  void encode_next(wire::PacketKind kind, Rank peer, std::byte* head);

  Rank me_;
  std::uint16_t communicator_;
  wire::TagKeys keys_;
  /// Counter of the last datagram sent to each peer.
  std::vector<std::uint64_t> sent_;
  wire::ArrivalCheck arrivals_;
};

}  // namespace tutti::device::rc
