// One rank's slots of a slot exchange in shared memory: the blocks of the rank's last few
// exchanges, and the number of the last exchange that the rank has acknowledged.
//
// A writer publishes a slot by a release store of the exchange's number, which readers poll. A
// short block lies on the same cache line as that number, and all these cache lines lie on one
// page. A slot is reused once every rank has acknowledged the exchange that used it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "device/host/shared_ring.hpp"
#include "device/slot_exchange.hpp"

namespace tutti::device::host {

/// The header of a slot; a block of at most kInlineBytes bytes follows it directly.
struct alignas(kCacheLineBytes) SlotLine {
  static constexpr std::size_t kInlineBytes = 40;

  std::atomic<std::uint64_t> exchange;  ///< number of the exchange, from 1 on
  ExchangeHeader header;
  std::array<std::byte, kInlineBytes> block;
};
static_assert(sizeof(SlotLine) == kCacheLineBytes);

/// The slots of one rank.
class SlotShare {
 public:
  static constexpr std::uint32_t kSlots = SlotExchange::kSlots;
  static constexpr std::size_t kBlockBytes = 64 * 1024;

  SlotShare() = default;
  explicit SlotShare(std::span<std::byte> memory) : memory_(memory) {}

  static constexpr std::size_t bytes() { return kBlocksOffset + kSlots * kBlockBytes; }

  /// Number of the last exchange that the owner of these slots has acknowledged.
  std::atomic<std::uint64_t>& acked() const {
    return reinterpret_cast<SharedCount*>(memory_.data())->value;
  }
  SlotLine& line(std::uint64_t exchange) const {
    std::byte* const lines = &memory_[sizeof(SharedCount)];
    return reinterpret_cast<SlotLine*>(lines)[exchange % kSlots];
  }
  /// The memory in which the block of an exchange is published.
  std::byte* block(std::uint64_t exchange, std::size_t bytes) const {
    if (bytes <= SlotLine::kInlineBytes) return line(exchange).block.data();
    return &memory_[kBlocksOffset + exchange % kSlots * kBlockBytes];
  }

 private:
  static constexpr std::size_t kBlocksOffset = sizeof(SharedCount) + kSlots * sizeof(SlotLine);

  std::span<std::byte> memory_;
};

}  // namespace tutti::device::host
