// The sizes of chunks and datagrams that fit into packets of an MTU.
#pragma once

#include <cstdint>
#include <vector>

#include "device/ip/ip_options.hpp"

namespace tutti::device::ip {

/// Length of the IP and UDP headers in bytes.
std::uint32_t ip_and_udp_bytes(int family);
/// Payload bytes of the largest chunk that is sent as one datagram at this MTU.
std::uint32_t chunk_bytes_for_mtu(std::uint32_t mtu_bytes, int family);
/// Payload bytes of the largest UC fragment at this MTU.
std::uint32_t fragment_bytes_for_mtu(std::uint32_t mtu_bytes, int family);
/// Payload bytes of the largest UC message whose fragments carry `fragment_bytes` bytes each.
std::uint32_t message_bytes_for_fragment(std::uint32_t fragment_bytes);

/// The sizes of chunks and datagrams.
struct ChunkShape {
  std::uint32_t chunk_bytes = 0;  ///< payload bytes of the largest chunk
  /// Payload bytes of the largest datagram; for UD equal to chunk_bytes.
  std::uint32_t datagram_bytes = 0;
};
/// The sizes that an endpoint with these options announces to the other ranks at this MTU.
ChunkShape chunk_shape(const IpOptions& options, std::uint32_t mtu_bytes);
/// The sizes in bytes of the datagrams that test a path, descending. The first is the size of a
/// datagram with `payload_bytes` bytes of a chunk or fragment; the smaller ones fit into common
/// MTUs.
std::vector<std::uint32_t> datagram_sizes(const IpOptions& options, std::uint32_t payload_bytes);
/// The payload bytes of a chunk or fragment in a datagram of `datagram_bytes` bytes.
std::uint32_t datagram_payload(const IpOptions& options, std::uint32_t datagram_bytes);
/// The size of a UC message in payload bytes. All ranks pass the same fragment size and receive
/// window, and so compute the same size.
std::uint32_t message_bytes_for_window(std::uint32_t fragment_bytes, std::uint64_t window_bytes);

}  // namespace tutti::device::ip
