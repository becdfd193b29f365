// An endpoint that has only multicast queue pairs, of a type that the test supplies.
#pragma once

#include <vector>

#include "device/device.hpp"

namespace tutti::test {

template <typename Pair>
class FakeEndpoint : public device::Endpoint {
 public:
  explicit FakeEndpoint(std::uint32_t subgroups) : pairs(subgroups) {}
  std::vector<Pair> pairs;

  const device::Capabilities& capabilities() const override { return capabilities_; }
  std::vector<std::byte> address() const override { return {}; }
  Status connect(std::span<const std::vector<std::byte>>) override { return {}; }
  std::uint32_t subgroup_count() const override { return static_cast<std::uint32_t>(pairs.size()); }
  device::MulticastQueuePair& multicast(std::uint32_t subgroup) override { return pairs[subgroup]; }
  Result<device::MemoryKey> register_memory(std::span<std::byte>) override {
    return device::MemoryKey{};
  }
  void deregister_memory(device::MemoryKey) override {}
  std::size_t max_message_bytes() const override { return 0; }
  Status post(Instant, const device::WorkRequest&) override { return {}; }
  std::size_t poll(Instant, std::span<device::Completion>) override { return 0; }
  void watch(Rank, bool) override {}
  bool quiet() const override { return true; }
  Instant next_deadline() const override { return kNever; }
  int wait_descriptor() const override { return -1; }
  void notify_when_sendable(bool) override {}
  device::EndpointCounters counters() const override { return {}; }

 private:
  device::Capabilities capabilities_;
};

}  // namespace tutti::test
