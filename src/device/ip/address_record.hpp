// The address of an ip endpoint, as the bootstrap carries it to the other ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/ip/ip_options.hpp"
#include "device/ip/socket.hpp"
#include "tutti/status.hpp"

namespace tutti::device::ip {

inline constexpr std::uint32_t kMaxUdpPayload = 65507;
/// Chunk sizes are multiples of this number of bytes, the size of a vector register.
inline constexpr std::uint32_t kChunkGranule = 32;

struct AddressRecord {
  std::uint32_t chunk_bytes = kChunkGranule;  ///< payload bytes of the largest chunk
  /// Random number that distinguishes this start of the endpoint from earlier ones at the same
  /// address.
  std::uint32_t incarnation = 0;
  /// Receive window: bytes of multicast payload for which the receive buffers have room.
  std::uint64_t receive_window_bytes = 0;
  std::uint32_t datagram_bytes = kChunkGranule;  ///< payload bytes of the largest datagram
  Multicast multicast = Multicast::ud;
  std::uint16_t slot_port = 0;  ///< unicast port of the slot exchange; 0: none
  SocketAddress socket;         ///< address of the reliable connections
};

std::vector<std::byte> encode(const AddressRecord& record);
/// Decodes an address record. Fails if a value is outside its range.
Result<AddressRecord> decode_address_record(std::span<const std::byte> bytes);

}  // namespace tutti::device::ip
