// The memory of one simulated endpoint that its peers may read or write by memory key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"

namespace tutti::device::sim {

/// The registered regions. The low half of a memory key is the index of a region, the high half
/// says how often the index has been used, so no key ever becomes valid again.
class RegionTable {
 public:
  MemoryKey add(std::span<std::byte> memory) {
    std::uint32_t slot = 0;
    while (slot < regions_.size() && regions_[slot].live) ++slot;
    if (slot == regions_.size()) regions_.emplace_back();
    Region& region = regions_[slot];
    region.memory = memory;
    region.live = true;
    ++region.uses;
    return MemoryKey{std::uint64_t{region.uses} << 32 | slot};
  }
  void remove(MemoryKey key) {
    const auto slot = static_cast<std::uint32_t>(key.key);
    if (slot < regions_.size() && regions_[slot].uses == key.key >> 32) regions_[slot].live = false;
  }
  /// The `length` bytes from `offset` in a region; empty if the key is invalid or the range leaves
  /// the region.
  std::optional<std::span<std::byte>> resolve(std::uint64_t key, std::uint64_t offset,
                                              std::uint64_t length) const {
    const auto slot = static_cast<std::uint32_t>(key);
    if (slot >= regions_.size()) return std::nullopt;
    const Region& region = regions_[slot];
    if (!region.live || region.uses != key >> 32) return std::nullopt;
    if (offset > region.memory.size() || length > region.memory.size() - offset)
      return std::nullopt;
    return region.memory.subspan(offset, length);
  }

 private:
  struct Region {
    std::span<std::byte> memory;
    std::uint32_t uses = 0;
    bool live = false;
  };

  /// Registered regions. They are few: one for each collective whose data peers read.
  std::vector<Region> regions_;
};

}  // namespace tutti::device::sim
