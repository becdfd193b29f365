// The sizes of chunks and datagrams that fit an MTU.
#pragma once

#include <cstdint>

#include "device/ip/ip_options.hpp"

namespace tutti::device::ip {

/// Length of the IP and UDP headers.
std::uint32_t ip_and_udp_bytes(int family);
/// Largest payload of a chunk sent as one datagram at this MTU.
std::uint32_t chunk_bytes_for_mtu(std::uint32_t mtu_bytes, int family);
/// Largest payload of one segment of a UC message at this MTU.
std::uint32_t segment_bytes_for_mtu(std::uint32_t mtu_bytes, int family);
/// Largest UC message with segments of this payload.
std::uint32_t message_bytes_for_segment(std::uint32_t segment_bytes);

/// The sizes of chunks and datagrams.
struct ChunkShape {
  std::uint32_t chunk_bytes = 0;     ///< largest payload of a chunk
  std::uint32_t datagram_bytes = 0;  ///< largest payload of a datagram; equal to a chunk's by UD
};
/// The sizes that an endpoint with these options announces at this MTU.
ChunkShape chunk_shape(const IpOptions& options, std::uint32_t mtu_bytes);
/// The UC message size that the ranks agree on, from their segment size and receive window.
std::uint32_t message_bytes_for_window(std::uint32_t segment_bytes, std::uint64_t window_bytes);

}  // namespace tutti::device::ip
