// The `ip` device, for any Ethernet: UDP multicast as UD or UC, and reliable connections over UDP.
#pragma once

#include <memory>
#include <string>

#include "device/device.hpp"
#include "device/ip/ip_options.hpp"

namespace tutti::device::ip {

class IpDevice final : public Device {
 public:
  explicit IpDevice(IpOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "ip"; }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override;

 private:
  IpOptions options_;
};

}  // namespace tutti::device::ip
