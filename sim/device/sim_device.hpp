// The `sim` device: the NICs of a simulated fabric, in virtual time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/device.hpp"
#include "device/frame_tap.hpp"
#include "sim/device/network.hpp"

namespace tutti::device::sim {

/// Opens the endpoints of one communicator of a simulated network, each on the host of its rank.
/// Not thread-safe, because a simulation has one thread.
class SimDevice final : public Device {
 public:
  /// `network` must outlive the device and its endpoints. `tap` decides how many copies of each
  /// frame are sent; null: one copy.
  SimDevice(SimNetwork& network, std::uint32_t communicator, const NicSettings& settings,
            std::shared_ptr<FrameTap> tap = nullptr)
      : network_(&network),
        communicator_(communicator),
        settings_(settings),
        tap_(std::move(tap)) {}

  std::string name() const override { return "sim"; }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    return network_->open(communicator_, options, settings_, tap_);
  }

 private:
  SimNetwork* network_;
  std::uint32_t communicator_;
  NicSettings settings_;
  std::shared_ptr<FrameTap> tap_;
};

}  // namespace tutti::device::sim
