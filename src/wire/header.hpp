// The header of every datagram of the `ip` device, and the limits that its field widths impose.
//
//    0        1        2        3
//   +--------+--------+-----------------+
//   |ver|kind|subgroup|  communicator   |
//   +--------+--------+-----------------+
//   |              source               |  rank of the sender
//   +-----------------------------------+
//   |               epoch               |  chunk: collective sequence number of the communicator
//   |                                   |  probe: attempt
//   +-----------------------------------+
//   |                psn                |  chunk: index in the whole receive buffer
//   |                                   |  reliable, path_probe, group_frame: destination rank
//   +-----------------------------------+
//   |              counter              |  8 bytes: number of the datagram in its stream, from 1;
//   |                                   |  the receiver accepts each number once
//   +-----------------------------------+
//   |                tag                |  8 bytes: keyed tag, or CRC, over the 24 bytes above
//   |                                   |  and the payload
//   +-----------------------------------+
//
// All fields are little-endian. A stream is all that a rank multicasts in one subgroup, or all
// frames that it sends to one peer by unicast. A retransmit has a new counter and a new tag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "tutti/units.hpp"

namespace tutti::wire {

enum class PacketKind : std::uint8_t {
  chunk = 1,
  reliable = 2,
  probe = 3,
  /// UC fragment, a datagram of a UC message. Two more fields follow the header
  /// (wire/uc_fragment.hpp).
  message = 4,
  /// Padded probe of the path to one peer. Its counter belongs to the stream of the reliable frames
  /// to this peer.
  path_probe = 5,
  /// Frame of a reliable connection that is meant for one peer but sent by multicast to a subgroup;
  /// its counter belongs to the stream of that subgroup.
  group_frame = 6,
};

inline constexpr std::uint8_t kVersion = 2;
inline constexpr std::size_t kHeaderBytes = 32;
inline constexpr std::size_t kCounterOffset = 16;
inline constexpr std::size_t kTagOffset = 24;
/// Offset of the source rank in the header, in bytes; socket filters compare this field.
inline constexpr std::size_t kSourceOffset = 4;
inline constexpr std::size_t kPsnOffset = 12;

struct Header {
  PacketKind kind = PacketKind::chunk;
  std::uint8_t subgroup = 0;
  std::uint16_t communicator = 0;
  Rank source = kNoRank;
  std::uint32_t epoch = 0;
  std::uint32_t psn = 0;
  std::uint64_t counter = 0;
  std::uint64_t tag = 0;

  friend bool operator==(const Header&, const Header&) = default;
};

// The fields of a header fill its 32 bytes exactly. The field `source` can hold any rank below
// kMaxRanks, and the field `subgroup` any subgroup below kMaxSubgroups.
static_assert(1 + 1 + 2 + 4 + 4 + 4 + 8 + 8 == kHeaderBytes);
inline constexpr std::uint64_t kMaxRanks = std::uint64_t{1} << 31;
inline constexpr std::uint32_t kMaxSubgroups = 256;

/// Writes the header, tag included, as 32 bytes to `out`.
void encode(const Header& header, std::byte* out);

/// Writes a tag into an encoded header.
inline void encode_tag(std::uint64_t tag, std::byte* header) {
  std::memcpy(header + kTagOffset, &tag, sizeof tag);
}

/// Reads the counter from an encoded header; tag_of() reads the tag.
inline std::uint64_t counter_of(const std::byte* header) {
  std::uint64_t counter = 0;
  std::memcpy(&counter, header + kCounterOffset, sizeof counter);
  return counter;
}
inline std::uint64_t tag_of(const std::byte* header) {
  std::uint64_t tag = 0;
  std::memcpy(&tag, header + kTagOffset, sizeof tag);
  return tag;
}

/// Decodes a header; returns nothing if there are too few bytes, or if the version or the kind is
/// unknown.
std::optional<Header> decode(std::span<const std::byte> datagram);

/// The header as text, for logs and test failures: "chunk comm 3 source 7 epoch 12 psn 99 counter 5
/// tag 0x...".
std::string to_string(const Header& header);

}  // namespace tutti::wire
