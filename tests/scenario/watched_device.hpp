// A device around another one whose work requests a test sees before they leave.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/device.hpp"

namespace tutti::scenario {

/// Called by the thread that drives rank `me`, for each work request that it posts.
using WorkWatcher = std::function<void(Rank me, const device::WorkRequest& request)>;

class WatchedEndpoint final : public device::Endpoint {
 public:
  WatchedEndpoint(std::unique_ptr<device::Endpoint> inner, Rank me, WorkWatcher watcher)
      : inner_(std::move(inner)), me_(me), watcher_(std::move(watcher)) {}

  Status post(Instant now, const device::WorkRequest& request) override {
    watcher_(me_, request);
    return inner_->post(now, request);
  }

  const device::Capabilities& capabilities() const override { return inner_->capabilities(); }
  std::string description() const override { return inner_->description(); }
  std::vector<std::byte> address() const override { return inner_->address(); }
  Status connect(std::span<const std::vector<std::byte>> addresses) override {
    return inner_->connect(addresses);
  }
  std::uint32_t subgroup_count() const override { return inner_->subgroup_count(); }
  device::MulticastQueuePair& multicast(std::uint32_t subgroup) override {
    return inner_->multicast(subgroup);
  }
  Status receive_apart(bool on) override { return inner_->receive_apart(on); }
  Result<device::MemoryKey> register_memory(std::span<std::byte> memory) override {
    return inner_->register_memory(memory);
  }
  void deregister_memory(device::MemoryKey key) override { inner_->deregister_memory(key); }
  std::size_t max_message_bytes() const override { return inner_->max_message_bytes(); }
  std::size_t poll(Instant now, std::span<device::Completion> completions) override {
    return inner_->poll(now, completions);
  }
  void watch(Rank peer, bool on) override { inner_->watch(peer, on); }
  void abandon() override { inner_->abandon(); }
  bool quiet() const override { return inner_->quiet(); }
  Instant next_deadline() const override { return inner_->next_deadline(); }
  int wait_descriptor() const override { return inner_->wait_descriptor(); }
  bool prepare_wait() override { return inner_->prepare_wait(); }
  void notify_when_sendable(bool on) override { inner_->notify_when_sendable(on); }
  device::EndpointCounters counters() const override { return inner_->counters(); }

 private:
  std::unique_ptr<device::Endpoint> inner_;
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
