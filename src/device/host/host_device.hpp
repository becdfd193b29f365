// The `host` device connects ranks of one host by shared memory. A sender writes a multicast chunk
// once into a ring that all other ranks read; reliable connections use one ring for each ordered
// pair of ranks.
#pragma once

#include <memory>
#include <string>

#include "device/device.hpp"

namespace tutti::device::host {

class HostDevice final : public Device {
 public:
  std::string name() const override { return "host"; }
  /// Opens an endpoint. All ranks must be processes or threads of one user on one host and must see
  /// each other's entries in /proc.
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override;
};

}  // namespace tutti::device::host
