// The memory regions of one endpoint, which its peers may read and write by key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "tutti/status.hpp"

namespace tutti::device::rc {

/// Registered regions. The low 24 bits of a key are the region's index; the other bits are random,
/// so that a peer can neither guess a key nor use a removed one. Used by one thread.
class MemoryTable {
 public:
  /// The choice of the upper bits of a key: random, or in a simulated device the number of the
  /// registration, so that each run has the same keys.
  enum class Keys : std::uint8_t { random, counted };

  explicit MemoryTable(Keys keys = Keys::random) : keys_(keys) {}

  /// Registers memory, which the caller must keep valid until `remove`. Fails with
  /// Code::resource_exhausted if 2^24 regions are registered, and with Code::system if the
  /// operating system gives no random bytes.
  Result<MemoryKey> add(std::span<std::byte> memory);
  /// Ends the registration of a region; returns false if the key was not valid. Allocates no
  /// memory.
  bool remove(MemoryKey key);
  /// The `length` bytes of the region that begin at `offset`; nothing if the key is not valid or
  /// the range exceeds the region.
  std::optional<std::span<std::byte>> resolve(std::uint64_t key, std::uint64_t offset,
                                              std::uint64_t length) const {
    const std::uint64_t slot = slot_of(key);
    if (slot >= regions_.size() || key == kNoKey) return std::nullopt;
    const Region& region = regions_[slot];
    if (region.key != key) return std::nullopt;
    if (offset > region.memory.size() || length > region.memory.size() - offset)
      return std::nullopt;
    return region.memory.subspan(offset, length);
  }
  std::size_t size() const { return size_; }

 private:
  static constexpr unsigned kSlotBits = 24;
  static constexpr std::uint64_t kNoKey = 0;
  static constexpr std::uint32_t kNoSlot = UINT32_MAX;

  struct Region {
    std::span<std::byte> memory;
    std::uint64_t key = kNoKey;
    std::uint32_t next_free = kNoSlot;  ///< index of the next free region; kNoSlot: none
  };

  static std::uint64_t slot_of(std::uint64_t key) {
    return key & ((std::uint64_t{1} << kSlotBits) - 1);
  }
  Result<std::uint64_t> draw_key(std::uint32_t slot);

  Keys keys_;
  std::vector<Region> regions_;
  std::uint32_t first_free_ = kNoSlot;
  std::size_t size_ = 0;
  std::uint64_t registrations_ = 0;
  /// Random words for the next keys, drawn for many registrations at once.
  std::vector<std::uint64_t> random_;
};

}  // namespace tutti::device::rc
