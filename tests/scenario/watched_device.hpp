// A device around another one whose work requests a test sees before they leave.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "device/forwarding_endpoint.hpp"

namespace tutti::scenario {

/// Called by the thread that drives rank `me`, for each work request that it posts.
using WorkWatcher = std::function<void(Rank me, const device::WorkRequest& request)>;

class WatchedEndpoint final : public device::ForwardingEndpoint {
 public:
  WatchedEndpoint(std::unique_ptr<device::Endpoint> inner, Rank me, WorkWatcher watcher)
      : ForwardingEndpoint(std::move(inner)), me_(me), watcher_(std::move(watcher)) {}

  Status post(Instant now, const device::WorkRequest& request) override {
    watcher_(me_, request);
    return ForwardingEndpoint::post(now, request);
  }

 private:
  Rank me_;
  WorkWatcher watcher_;
};

class WatchedDevice final : public device::Device {
 public:
  WatchedDevice(std::shared_ptr<device::Device> inner, WorkWatcher watcher)
      : inner_(std::move(inner)), watcher_(std::move(watcher)) {}

  std::string name() const override { return inner_->name(); }
  Result<std::unique_ptr<device::Endpoint>> open(const device::EndpointOptions& options) override {
    auto inner = inner_->open(options);
    if (!inner) return inner.status();
    return std::unique_ptr<device::Endpoint>(
        std::make_unique<WatchedEndpoint>(std::move(*inner), options.rank, watcher_));
  }

 private:
  std::shared_ptr<device::Device> inner_;
  WorkWatcher watcher_;
};

}  // namespace tutti::scenario
