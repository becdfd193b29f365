// Devices that pass the endpoints of another device through a wrapper of the test.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "device/forwarding_endpoint.hpp"
#include "protocol/codec/message.hpp"

namespace tutti::scenario {

/// Makes an endpoint that wraps the endpoint of rank `me`.
using EndpointWrapper = std::function<std::unique_ptr<device::Endpoint>(
    std::unique_ptr<device::Endpoint> endpoint, Rank me)>;

class WrappedDevice final : public device::Device {
 public:
  WrappedDevice(std::shared_ptr<device::Device> inner, EndpointWrapper wrapper)
      : inner_(std::move(inner)), wrapper_(std::move(wrapper)) {}

  std::string name() const override { return inner_->name(); }
  Result<std::unique_ptr<device::Endpoint>> open(const device::EndpointOptions& options) override {
    auto inner = inner_->open(options);
    if (!inner) return inner.status();
    return wrapper_(std::move(*inner), options.rank);
  }

 private:
  std::shared_ptr<device::Device> inner_;
  EndpointWrapper wrapper_;
};

/// Called for each work request that rank `me` posts, on the thread that owns the rank's engine.
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

/// A value of JobSpec::wrap: the device shows each work request to `watcher` before posting it.
inline auto watch_work(WorkWatcher watcher) {
  return [watcher = std::move(watcher)](std::shared_ptr<device::Device> inner) {
    return std::make_shared<WrappedDevice>(
        std::move(inner), [watcher](std::unique_ptr<device::Endpoint> endpoint, Rank me) {
          return std::make_unique<WatchedEndpoint>(std::move(endpoint), me, watcher);
        });
  };
}

/// The protocol message that a work request sends; nothing if it sends none.
inline std::optional<protocol::Message> sent_message(const device::WorkRequest& request) {
  if (request.opcode != device::Opcode::send) return std::nullopt;
  return protocol::decode(request.local);
}

}  // namespace tutti::scenario
