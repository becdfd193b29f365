// A device that decorates another device and injects the faults of a plan into it.
//
//   auto plan = FaultPlan::parse("drop receiver chunk rate=1%");
//   auto faults = std::make_shared<FaultDevice>(*plan);
//   ip::IpOptions ip{.tap = faults->frame_tap()};      // for faults of reliable frames
//   faults->decorate(std::make_shared<ip::IpDevice>(ip));
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "device/device.hpp"
#include "device/frame_tap.hpp"
#include "sim/fault/fault_injector.hpp"
#include "sim/fault/fault_plan.hpp"

namespace tutti::device::fault {

class FaultDevice final : public Device {
 public:
  explicit FaultDevice(FaultPlan plan)
      : plan_(std::move(plan)),
        counters_(std::make_shared<InjectedCounters>()),
        tap_(std::make_shared<PlannedFrameTap>(plan_, counters_)) {}

  /// The hook that applies the plan's rules to reliable frames. The options of the decorated device
  /// must contain this hook.
  std::shared_ptr<FrameTap> frame_tap() const { return tap_; }
  /// Sets the decorated device, which does the transfers. Must be called before `open`.
  void decorate(std::shared_ptr<Device> inner) { inner_ = std::move(inner); }

  std::string name() const override;
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override;

  const FaultPlan& plan() const { return plan_; }
  /// The faults injected so far at all endpoints of this device.
  Injected injected() const { return counters_->snapshot(); }

 private:
  FaultPlan plan_;
  std::shared_ptr<InjectedCounters> counters_;
  std::shared_ptr<PlannedFrameTap> tap_;
  std::shared_ptr<Device> inner_;
};

}  // namespace tutti::device::fault
