// A rank's part of the board of a host's ranks, as it lies in shared memory: places for the blocks
// of its last few meetings, and how far it has come.
//
// A writer publishes a place with a release store of the meeting's number, and readers wait for
// that number. What is very short lies on the same cache line, and all such lines on one page. A
// place is written anew once every rank has left the meeting that it was for.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "device/host/shared_ring.hpp"
#include "device/slot_exchange.hpp"

namespace tutti::device::host {

/// What is said of a block; and the block, where it is no longer than `kInlineBytes`.
struct alignas(kCacheLineBytes) SlotLine {
  static constexpr std::size_t kInlineBytes = 40;

  std::atomic<std::uint64_t> meeting;  ///< its number, from 1 on
  ExchangeHeader what;
  std::array<std::byte, kInlineBytes> block;
};
static_assert(sizeof(SlotLine) == kCacheLineBytes);

/// The places of one rank.
class SlotShare {
 public:
  static constexpr std::uint32_t kPlaces = SlotExchange::kPlaces;
  static constexpr std::size_t kBlockBytes = 64 * 1024;

  SlotShare() = default;
  explicit SlotShare(std::span<std::byte> memory) : memory_(memory) {}

  static constexpr std::size_t bytes() { return kBlocksOffset + kPlaces * kBlockBytes; }

  /// Meetings that this rank has left.
  std::atomic<std::uint64_t>& left() const {
    return reinterpret_cast<SharedCount*>(memory_.data())->value;
  }
  SlotLine& line(std::uint64_t meeting) const {
    std::byte* const lines = &memory_[sizeof(SharedCount)];
    return reinterpret_cast<SlotLine*>(lines)[meeting % kPlaces];
  }
  /// Where the block of a meeting lies, if it is so long.
  std::byte* block(std::uint64_t meeting, std::size_t bytes) const {
    if (bytes <= SlotLine::kInlineBytes) return line(meeting).block.data();
    return &memory_[kBlocksOffset + meeting % kPlaces * kBlockBytes];
  }

 private:
  static constexpr std::size_t kBlocksOffset = sizeof(SharedCount) + kPlaces * sizeof(SlotLine);

  std::span<std::byte> memory_;
};

}  // namespace tutti::device::host
