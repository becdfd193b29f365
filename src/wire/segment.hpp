// The header of a segment: a chunk that travels as one multicast message of several datagrams (UC,
// K10).
//
//   +-----------------------------------+
//   |  header of the message, 24 bytes  |  the same in all segments (wire/header.hpp), kind
//   message; |                                   |  its tag is over the whole message's payload
//   +-----------------------------------+
//   |              offset               |  of this segment's payload in the message
//   +-----------------------------------+
//   |           message bytes           |
//   +-----------------------------------+
//
// The tag does not cover the last two: a segment that they misplace makes the message's tag fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/header.hpp"

namespace tutti::wire {

inline constexpr std::size_t kSegmentHeaderBytes = kHeaderBytes + 8;
/// The longest message, segment headers included: what the kernel takes as one segmented send.
inline constexpr std::size_t kMaxMessageBytes = 65507;

struct Segment {
  Header message;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;  ///< of this segment's payload
  std::uint32_t message_bytes = 0;

  bool begins() const { return offset == 0; }
  bool ends() const { return offset + bytes == message_bytes; }
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// Writes the header, 32 bytes, of which the first 24 are the message's.
void encode(const Segment& segment, std::byte* out);

/// Reads a segment's header in front of `payload_bytes` bytes, which need not be there yet. Nothing
/// for what is no segment, is empty, or does not lie within a message of allowed length.
std::optional<Segment> decode_segment(std::span<const std::byte> header, std::size_t payload_bytes);

}  // namespace tutti::wire
