// Fuzzes the chunks of slot exchanges between hosts. Every entry that an exchange returns has the
// length that its header states, and the next exchange can begin after a complete one.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "device/slots/datagram_slot_exchange.hpp"

namespace {

using namespace tutti;

constexpr std::uint32_t kRanks = 3;
constexpr std::uint32_t kChunkBytes = 48;
// Number of bytes before a chunk's payload in the input: its source, epoch, PSN and length.
constexpr std::size_t kFixedBytes = 6;

/// Delivers the chunks that the input contains.
class HostilePair final : public device::MulticastQueuePair {
 public:
  explicit HostilePair(std::span<const std::byte>& input) : input_(input) {}

  Result<std::uint32_t> post(const device::ChunkRun& run) override {
    return static_cast<std::uint32_t>((run.data.size() + run.chunk_bytes - 1) / run.chunk_bytes);
  }
  std::uint64_t unsent_bytes() override { return 0; }
  std::size_t poll(std::span<device::ReceivedChunk> chunks) override {
    // Chunks are delivered one at a time, so that exchanges can end between them.
    if (input_.size() < kFixedBytes) return 0;
    const auto byte = [&](std::size_t at) { return std::to_integer<std::uint32_t>(input_[at]); };
    const std::size_t bytes = std::min<std::size_t>(byte(5), input_.size() - kFixedBytes);
    // A real queue pair delivers only chunks of other ranks, so the sender is always another rank.
    chunks[0] = {.epoch = byte(1) | byte(2) << 28,
                 .psn = byte(3) | byte(4) << 30,
                 .source = rank_of(1 + byte(0) % (kRanks - 1)),
                 .payload = input_.subspan(kFixedBytes, bytes)};
    input_ = input_.subspan(kFixedBytes + bytes);
    return 1;
  }
  bool copy_and_verify(const device::ReceivedChunk&, std::byte*) override { return true; }
  void release() override {}
  Status post_probe(std::uint32_t, std::uint32_t) override { return {}; }

 private:
  std::span<const std::byte>& input_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span input(reinterpret_cast<const std::byte*>(data), size);
  HostilePair pair(input);
  device::slots::DatagramSlotExchange slot_exchange(rank_of(0), kRanks, pair, kChunkBytes);
  const std::array<std::byte, 40> own{};
  const device::ExchangeHeader meeting{.purpose = 2, .block_bytes = own.size()};
  if (!slot_exchange.enter(meeting, own)) std::abort();
  while (!input.empty()) {
    const std::size_t left = input.size();
    for (const device::SlotEntry& one : slot_exchange.collect()) {
      if (one.block.size() != one.header.block_bytes) std::abort();
      if (one.block.size() > slot_exchange.max_block_bytes()) std::abort();
    }
    slot_exchange.on_acked(rank_of(1), static_cast<std::uint32_t>(left));
    (void)slot_exchange.resend(static_cast<std::uint32_t>(left));
    if (slot_exchange.complete()) {
      slot_exchange.leave();
      if (!slot_exchange.enter(meeting, own)) std::abort();
    }
    if (input.size() == left) break;
  }
  return 0;
}
