// The `host` device: ranks of one host, through shared memory. Chunks of a multicast are written
// once, into a ring that all others read; reliable connections run over a ring a pair of ranks.
#pragma once

#include <memory>
#include <string>

#include "device/device.hpp"

namespace tutti::device::host {

class HostDevice final : public Device {
 public:
  std::string name() const override { return "host"; }
  /// All ranks are processes (or threads) of one host, of one user, that see each other's /proc.
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override;
};

}  // namespace tutti::device::host
