#include "device/ip/chunk_shape.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "device/ip/address_record.hpp"
#include "device/ip/datagram_sender.hpp"
#include "device/ip/interface.hpp"
#include "device/rc/rc_config.hpp"
#include "wire/header.hpp"
#include "wire/uc_fragment.hpp"

namespace tutti::device::ip {

namespace {

constexpr std::uint32_t kUdpBytes = 8;
constexpr std::uint32_t kIpv4Bytes = 20;
constexpr std::uint32_t kIpv6Bytes = 40;

// MTUs of networks and tunnels, descending.
constexpr std::array<std::uint32_t, 18> kCommonMtuBytes{9000, 8000, 4470, 4352, 4000, 2304,
                                                        2000, 1500, 1492, 1480, 1472, 1450,
                                                        1420, 1400, 1380, 1280, 1000, 600};

// The receive window must have room for this number of UC messages, so that credits allow several
// messages in flight. It has room for fewer messages only if a single fragment is already longer
// than the window divided by this number.
constexpr std::uint64_t kMinMessages = 8;

constexpr std::uint32_t whole_granules(std::size_t bytes) {
  return static_cast<std::uint32_t>(bytes / kChunkGranule * kChunkGranule);
}

/// Bytes of the headers in a datagram, before the payload of a chunk or fragment.
std::uint32_t front_bytes(const IpOptions& options) {
  return static_cast<std::uint32_t>(options.multicast == Multicast::uc ? wire::kFragmentHeaderBytes
                                                                       : wire::kHeaderBytes);
}

std::uint32_t datagram_bytes_for_mtu(std::uint32_t mtu_bytes, int family) {
  const std::uint32_t headers = ip_and_udp_bytes(family);
  const std::uint32_t floor = headers + wire::kHeaderBytes + rc::kMinFrameBytes;
  return std::min(std::max(mtu_bytes, floor) - headers, kMaxUdpPayload);
}

}  // namespace

std::uint32_t ip_and_udp_bytes(int family) {
  return (family == AF_INET6 ? kIpv6Bytes : kIpv4Bytes) + kUdpBytes;
}

std::uint32_t chunk_bytes_for_mtu(std::uint32_t mtu_bytes, int family) {
  return whole_granules(datagram_bytes_for_mtu(mtu_bytes, family) - wire::kHeaderBytes);
}

std::uint32_t fragment_bytes_for_mtu(std::uint32_t mtu_bytes, int family) {
  return whole_granules(datagram_bytes_for_mtu(mtu_bytes, family) - wire::kFragmentHeaderBytes);
}

std::uint32_t message_bytes_for_fragment(std::uint32_t fragment_bytes) {
  const std::size_t fragments =
      std::min(wire::kMaxMessageBytes / (fragment_bytes + wire::kFragmentHeaderBytes),
               DatagramSender::kMaxBatch);
  return static_cast<std::uint32_t>(fragments * fragment_bytes);
}

std::uint32_t message_bytes_for_window(std::uint32_t fragment_bytes, std::uint64_t window_bytes) {
  const auto share = whole_granules(window_bytes / kMinMessages);
  return std::min(message_bytes_for_fragment(fragment_bytes), std::max(share, fragment_bytes));
}

std::uint32_t datagram_payload(const IpOptions& options, std::uint32_t datagram_bytes) {
  return whole_granules(datagram_bytes - front_bytes(options));
}

std::vector<std::uint32_t> datagram_sizes(const IpOptions& options, std::uint32_t payload_bytes) {
  const std::uint32_t full = front_bytes(options) + payload_bytes;
  std::vector<std::uint32_t> sizes{full};
  for (const std::uint32_t mtu : kCommonMtuBytes) {
    const std::uint32_t bytes = mtu - ip_and_udp_bytes(options.family);
    if (bytes < full && bytes >= wire::kHeaderBytes + rc::kMinFrameBytes) sizes.push_back(bytes);
  }
  return sizes;
}

ChunkShape chunk_shape(const IpOptions& options, std::uint32_t mtu_bytes) {
  const std::uint32_t limit = options.max_chunk_bytes == 0 ? UINT32_MAX : options.max_chunk_bytes;
  if (options.multicast == Multicast::ud) {
    const std::uint32_t chunk = std::min(chunk_bytes_for_mtu(mtu_bytes, options.family), limit);
    return {.chunk_bytes = chunk, .datagram_bytes = chunk};
  }
  std::uint32_t fragment = fragment_bytes_for_mtu(mtu_bytes, options.family);
  if (options.max_fragment_bytes != 0) {
    fragment =
        std::max(kChunkGranule, whole_granules(std::min(fragment, options.max_fragment_bytes)));
  }
  return {.chunk_bytes = std::min(message_bytes_for_fragment(fragment), limit),
          .datagram_bytes = fragment};
}

}  // namespace tutti::device::ip
