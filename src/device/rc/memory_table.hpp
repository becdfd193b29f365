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

/// Registered regions. A key never becomes valid again: its low half is a slot, and its high half
/// counts the uses of that slot, from 1 on. Used by one thread.
class MemoryTable {
 public:
  /// Registers memory, which the caller keeps alive. Fails with resource_exhausted if 2^32 regions
  /// are registered.
  Result<MemoryKey> add(std::span<std::byte> memory);
  /// Ends the registration of a region; returns false if the key was not valid.
  bool remove(MemoryKey key);
  /// The `length` bytes of the region that begin at `offset`; nothing if the key is not valid or
  /// the range exceeds the region.
  std::optional<std::span<std::byte>> resolve(std::uint64_t key, std::uint64_t offset,
                                              std::uint64_t length) const {
    const std::uint64_t slot = key & 0xffff'ffffu;
    if (slot >= regions_.size()) return std::nullopt;
    const Region& region = regions_[slot];
    if (!region.live || region.uses != key >> 32) return std::nullopt;
    if (offset > region.memory.size() || length > region.memory.size() - offset)
      return std::nullopt;
    return region.memory.subspan(offset, length);
  }
  std::size_t size() const { return regions_.size() - free_.size(); }

 private:
  struct Region {
    std::span<std::byte> memory;
    std::uint32_t uses = 0;
    bool live = false;
  };

  std::vector<Region> regions_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tutti::device::rc
