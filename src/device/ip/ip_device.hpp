// The `ip` device: UDP multicast as UD or UC, reliable connections over UDP, on any Ethernet.
#pragma once

#include <memory>
#include <string>

#include "device/device.hpp"
#include "device/frame_tap.hpp"

namespace tutti::device::ip {

/// The transport of a multicast chunk.
enum class Multicast : std::uint8_t {
  ud,  ///< as one datagram ([Khalilov24] 3.2)
  uc,  ///< as one message of one or more datagrams, placed on arrival ([Khalilov24] 5.2)
};

struct IpOptions {
  std::string interface;                ///< name or address; empty: chosen automatically
  int family = 2;                       ///< AF_INET or AF_INET6
  bool local_only = false;              ///< all ranks are on this host, so loopback is used
  int send_buffer_bytes = 192 * 1024;   ///< buffers of all subgroups together
  int receive_buffer_bytes = 32 << 20;  ///< buffer of each subgroup; the system may grant less
  Multicast multicast = Multicast::ud;
  std::uint32_t max_chunk_bytes = 0;    ///< 0: as the MTU allows, or one UC message
  std::uint32_t max_segment_bytes = 0;  ///< segment of a UC message; 0: as the MTU allows
  std::shared_ptr<FrameTap> tap;        ///< for tests
};

class IpDevice final : public Device {
 public:
  explicit IpDevice(IpOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "ip"; }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override;

 private:
  IpOptions options_;
};

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
