// The address of an endpoint as the bootstrap carries it to the other ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/ip/ip_device.hpp"
#include "device/ip/socket.hpp"
#include "tutti/status.hpp"

namespace tutti::device::ip {

inline constexpr std::uint32_t kMaxUdpPayload = 65507;
inline constexpr std::uint32_t kChunkGranule =
    32;  ///< chunks start on a vector register's boundary

struct AddressRecord {
  std::uint32_t chunk_bytes = kChunkGranule;     ///< the longest payload of a chunk
  std::uint32_t incarnation = 0;                 ///< of the endpoint's reliable connections
  std::uint64_t receive_window_bytes = 0;        ///< multicast payload that its buffers hold
  std::uint32_t datagram_bytes = kChunkGranule;  ///< the longest payload of a datagram
  Multicast multicast = Multicast::ud;
  std::uint16_t slot_port = 0;  ///< port of its board alone; 0: none
  SocketAddress socket;         ///< of reliable connections
};

std::vector<std::byte> encode(const AddressRecord& record);
/// Fails unless every value is one that an endpoint can announce.
Result<AddressRecord> decode_address_record(std::span<const std::byte> bytes);

}  // namespace tutti::device::ip
