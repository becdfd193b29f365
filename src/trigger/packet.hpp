// A packet between trigger units consists of a header of packed words and a payload [Xu25] 1.2. The
// fields of a word begin at its lowest bit; a number after a field is its width in bits.
//
//   word 0   key 48 | collective 1 | trigger 1 | swap data 1 | swap address 1 | end 1 | rdma 1 | 0
//   word 1   payload bytes 29 | destination port 11 | destination 24
//   word 2   remote address, of rdma packets only
//
// The payload of a mini packet waits in the destination's hash buffer. The payload of an RDMA
// packet goes straight to the destination's memory; only a trigger without data then waits in the
// hash buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "trigger/packet_key.hpp"

namespace tutti::trigger {

/// The location of a descriptor's data: `mini` in the descriptor, `rdma` in the job's memory.
enum class PayloadKind : std::uint8_t { mini, rdma };

/// An address in a node's registered memory: region number in the upper 16 bits, byte offset below.
enum class Address : std::uint64_t {};
inline constexpr Address kNoAddress = static_cast<Address>(~std::uint64_t{0});
constexpr Address operator+(Address address, std::uint64_t bytes) {
  return static_cast<Address>(static_cast<std::uint64_t>(address) + bytes);
}

inline constexpr unsigned kPayloadSizeBits = 29;
inline constexpr std::uint64_t kMaxPayloadBytes = (std::uint64_t{1} << kPayloadSizeBits) - 1;

struct PacketHeader {
  PacketKey key;  ///< the packet's job and step, and its sender's node and port
  NodeId destination = kNoNode;
  Port destination_port{};
  PayloadKind kind = PayloadKind::mini;
  /// Flag C: true if the packet belongs to a collective; false for a point-to-point message, which
  /// bypasses the trigger units.
  bool collective = true;
  bool trigger = true;  ///< flag CP: a descriptor waits for this packet
  /// SwapRemoteData: the payload replaces the data of the descriptor that names this packet.
  bool swap_data = false;
  /// SwapRemoteAddr: the payload becomes the remote address of the descriptor that names this
  /// packet.
  bool swap_address = false;
  /// CollEndFlag: the descriptor that names this packet ends the collective at its node.
  bool collective_end = false;
  std::uint32_t payload_bytes = 0;
  Address remote_address = kNoAddress;

  friend bool operator==(const PacketHeader&, const PacketHeader&) = default;
};

static_assert(kKeyBits + 6 <= 64 && kNodeBits + kPortBits + kPayloadSizeBits <= 64);

inline constexpr std::size_t kMaxPacketHeaderWords = 3;

/// Writes a packet header; returns its number of words.
std::size_t encode(const PacketHeader& header, std::span<std::uint64_t, kMaxPacketHeaderWords> out);

/// Reads a packet header from untrusted words. Returns nothing if there are too few or too many
/// words, or if reserved bits are set.
std::optional<PacketHeader> decode_packet_header(std::span<const std::uint64_t> words);

/// The name of a packet in error texts, such as "job 3 node 7 port 2 step 4".
std::string to_string(const PacketKey& key);

}  // namespace tutti::trigger
