// The `host` device: ranks of one host, connected by shared memory. A multicast chunk is written
// once into a ring that all others read; reliable connections use one ring for each pair of ranks.
#pragma once

#include <memory>
#include <string>

#include "device/device.hpp"

namespace tutti::device::host {

class HostDevice final : public Device {
 public:
  std::string name() const override { return "host"; }
  /// All ranks must be processes or threads of one user on one host and see each other's /proc.
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override;
};

}  // namespace tutti::device::host
