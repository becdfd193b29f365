// A device decorator that replaces the UD multicast of another device by UC multicast.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/forwarding_endpoint.hpp"
#include "sim/uc/fragment_queue_pair.hpp"

namespace tutti::device::sim {

class UcEndpoint final : public ForwardingEndpoint {
 public:
  UcEndpoint(std::unique_ptr<Endpoint> inner, const EndpointOptions& options,
             const FragmentShape& shape);

  const Capabilities& capabilities() const override { return capabilities_; }
  MulticastQueuePair& multicast(std::uint32_t subgroup) override { return *pairs_[subgroup]; }

 private:
  Capabilities capabilities_;
  std::vector<std::unique_ptr<FragmentQueuePair>> pairs_;
};

class UcDevice final : public Device {
 public:
  UcDevice(std::shared_ptr<Device> inner, const FragmentShape& shape)
      : inner_(std::move(inner)), shape_(shape) {}

  std::string name() const override { return inner_->name(); }
  /// Fails with invalid_argument if a fragment with its header does not fit into a chunk of the
  /// inner device.
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override;

 private:
  std::shared_ptr<Device> inner_;
  FragmentShape shape_;
};

}  // namespace tutti::device::sim
