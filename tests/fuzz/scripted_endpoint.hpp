// An endpoint without a network: the fuzz target chooses the messages that arrive.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "protocol/codec/data_message.hpp"

namespace tutti::fuzz {

class SilentQueuePair : public device::MulticastQueuePair {
 public:
  Result<std::uint32_t> post(const device::ChunkRun&) override { return 0u; }
  std::uint64_t unsent_bytes() override { return 0; }
  std::size_t poll(std::span<device::ReceivedChunk>) override { return 0; }
  bool copy_and_verify(const device::ReceivedChunk&, std::byte*) override { return true; }
  void release() override {}
  Status post_probe(std::uint32_t, std::uint32_t) override { return {}; }
};

class ScriptedEndpoint : public device::Endpoint {
 public:
  ScriptedEndpoint() {
    capabilities_.max_chunk_bytes = 1024;
    capabilities_.receive_window_bytes = 1 << 20;
    capabilities_.max_send_batch = 16;
  }

  /// Makes the next `poll` return a message or, if there are no bytes, an immediate.
  void deliver(Rank from, std::vector<std::byte> message, std::uint64_t immediate = 0) {
    arrivals_.push_back({from, std::move(message), immediate});
  }
  /// The number of posted messages that carried a schedule's data.
  std::uint64_t data_posted() const { return data_posted_; }

  const device::Capabilities& capabilities() const override { return capabilities_; }
  std::vector<std::byte> address() const override { return {}; }
  Status connect(std::span<const std::vector<std::byte>>) override { return {}; }
  std::uint32_t subgroup_count() const override { return 1; }
  device::MulticastQueuePair& multicast(std::uint32_t) override { return pair_; }
  Result<device::MemoryKey> register_memory(std::span<std::byte>) override {
    return device::MemoryKey{++keys_};
  }
  void deregister_memory(device::MemoryKey) override {}
  std::size_t max_message_bytes() const override { return 1024; }
  Status post(Instant, const device::WorkRequest& request) override {
    if (protocol::is_data_message(request.local)) ++data_posted_;
    if (request.signaled)
      ended_.push_back({request.opcode, Code::ok, request.peer, request.work_id});
    return {};
  }
  std::size_t poll(Instant, std::span<device::Completion> completions) override {
    std::size_t filled = 0;
    for (; filled < completions.size() && !ended_.empty(); ended_.pop_front()) {
      completions[filled++] = ended_.front();
    }
    // A poll returns at most one arrival, because `current_` can hold the bytes of only one. The
    // bytes must stay valid until the next poll.
    if (filled == completions.size() || arrivals_.empty()) return filled;
    current_ = std::move(arrivals_.front());
    arrivals_.pop_front();
    completions[filled++] = {.opcode = device::Opcode::receive,
                             .peer = current_.from,
                             .immediate = current_.immediate,
                             .payload = current_.message};
    return filled;
  }
  std::size_t poll_posted(Instant, std::span<device::Completion>) override { return 0; }
  void watch(Rank, bool) override {}
  bool quiet() const override { return true; }
  Instant next_deadline() const override { return kNever; }
  int wait_descriptor() const override { return -1; }
  void notify_when_sendable(bool) override {}
  device::EndpointCounters counters() const override { return {}; }

 private:
  struct Arrival {
    Rank from = kNoRank;
    std::vector<std::byte> message;
    std::uint64_t immediate = 0;
  };

  device::Capabilities capabilities_;
  SilentQueuePair pair_;
  std::deque<Arrival> arrivals_;
  std::deque<device::Completion> ended_;
  Arrival current_;
  std::uint64_t keys_ = 0;
  std::uint64_t data_posted_ = 0;
};

}  // namespace tutti::fuzz
