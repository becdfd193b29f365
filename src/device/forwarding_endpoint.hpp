// Base class of endpoint decorators. The base class forwards calls, and a decorator overrides the
// calls that it changes. Path probes and `slot_exchange` are not forwarded, because their transfers
// would bypass the decorator.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/device.hpp"

namespace tutti::device {

class ForwardingEndpoint : public Endpoint {
 public:
  explicit ForwardingEndpoint(std::unique_ptr<Endpoint> inner) : inner_(std::move(inner)) {}

  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  std::string description() const override { return inner_->description(); }
  std::vector<std::byte> address() const override { return inner_->address(); }
  Status use_secret(std::span<const std::byte> secret) override {
    return inner_->use_secret(secret);
  }
  Status connect(std::span<const std::vector<std::byte>> addresses) override {
    return inner_->connect(addresses);
  }
  std::uint32_t subgroup_count() const override { return inner_->subgroup_count(); }
  MulticastQueuePair& multicast(std::uint32_t subgroup) override {
    return inner_->multicast(subgroup);
  }
  Status use_receive_workers(bool on) override { return inner_->use_receive_workers(on); }
  Status rejoin_groups(Instant now) override { return inner_->rejoin_groups(now); }
  Result<MemoryKey> register_memory(std::span<std::byte> memory) override {
    return inner_->register_memory(memory);
  }
  void deregister_memory(MemoryKey key) override { inner_->deregister_memory(key); }
  void use_matcher(MessageMatcher* matcher) override { inner_->use_matcher(matcher); }
  std::size_t max_message_bytes() const override { return inner_->max_message_bytes(); }
  Status post(Instant now, const WorkRequest& request) override {
    return inner_->post(now, request);
  }
  std::size_t poll(Instant now, std::span<Completion> completions) override {
    return inner_->poll(now, completions);
  }
  std::size_t poll_posted(Instant now, std::span<Completion> completions) override {
    return inner_->poll_posted(now, completions);
  }
  void watch(Rank peer, bool on) override { inner_->watch(peer, on); }
  void release_peer(Rank peer) override { inner_->release_peer(peer); }
  void test_path(Rank peer) override { inner_->test_path(peer); }
  void abandon() override { inner_->abandon(); }
  bool quiet() const override { return inner_->quiet(); }
  Instant next_deadline() const override { return inner_->next_deadline(); }
  int wait_descriptor() const override { return inner_->wait_descriptor(); }
  bool prepare_wait() override { return inner_->prepare_wait(); }
  void notify_when_sendable(bool on) override { inner_->notify_when_sendable(on); }
  EndpointCounters counters() const override { return inner_->counters(); }
  PrioritiesInUse* priorities() override { return inner_->priorities(); }

 protected:
  Endpoint& inner() { return *inner_; }

 private:
  std::unique_ptr<Endpoint> inner_;
};

}  // namespace tutti::device
