// The `ip` device: UDP multicast as UD, reliable connections over UDP, on any Ethernet.
#pragma once

#include <memory>
#include <string>

#include "device/device.hpp"
#include "device/frame_tap.hpp"

namespace tutti::device::ip {

struct IpOptions {
  std::string interface;    ///< name or address; empty: chosen
  int family = 2;           ///< AF_INET or AF_INET6
  bool local_only = false;  ///< all ranks are on this host: loopback is chosen
  int send_buffer_bytes =
      192 * 1024;  ///< of all subgroups together: what may wait in the host's queue
  int receive_buffer_bytes = 32 << 20;  ///< of each subgroup; the system's limit may grant less
  std::uint32_t max_chunk_bytes = 0;    ///< 0: what the interface's MTU allows
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

/// The longest payload of a chunk on an interface of this MTU.
std::uint32_t chunk_bytes_for_mtu(std::uint32_t mtu_bytes, int family);

}  // namespace tutti::device::ip
