// The `ip` device: UDP multicast as UD or UC, reliable connections over UDP, on any Ethernet.
#pragma once

#include <memory>
#include <string>

#include "device/device.hpp"
#include "device/frame_tap.hpp"

namespace tutti::device::ip {

/// How a chunk travels by multicast.
enum class Multicast : std::uint8_t {
  ud,  ///< as one datagram (K1)
  uc,  ///< as one message of one or more datagrams, placed as it arrives (K10)
};

struct IpOptions {
  std::string interface;    ///< name or address; empty: chosen
  int family = 2;           ///< AF_INET or AF_INET6
  bool local_only = false;  ///< all ranks are on this host: loopback is chosen
  int send_buffer_bytes =
      192 * 1024;  ///< of all subgroups together: what may wait in the host's queue
  int receive_buffer_bytes = 32 << 20;  ///< of each subgroup; the system's limit may grant less
  Multicast multicast = Multicast::ud;
  std::uint32_t max_chunk_bytes = 0;    ///< 0: what the interface's MTU allows, or one UC message
  std::uint32_t max_segment_bytes = 0;  ///< of a UC message; 0: what the interface's MTU allows
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

/// The longest payload of a chunk that travels as one datagram on an interface of this MTU.
std::uint32_t chunk_bytes_for_mtu(std::uint32_t mtu_bytes, int family);
/// The longest payload of a segment of a UC message there.
std::uint32_t segment_bytes_for_mtu(std::uint32_t mtu_bytes, int family);
/// The longest UC message of segments of this length.
std::uint32_t message_bytes_for_segment(std::uint32_t segment_bytes);

/// How chunks travel.
struct ChunkShape {
  std::uint32_t chunk_bytes = 0;     ///< the longest payload of a chunk
  std::uint32_t datagram_bytes = 0;  ///< of a datagram; by UD a chunk's
};
/// What an endpoint with these options announces on an interface of this MTU.
ChunkShape chunk_shape(const IpOptions& options, std::uint32_t mtu_bytes);
/// The longest UC message that ranks agree on whose segments are of this length, and of whom each
/// has posted so many bytes.
std::uint32_t message_bytes_for_window(std::uint32_t segment_bytes, std::uint64_t window_bytes);

}  // namespace tutti::device::ip
