#include "device/rc/memory_table.hpp"

#include "base/error.hpp"

namespace tutti::device::rc {

Result<MemoryKey> MemoryTable::add(std::span<std::byte> memory) {
  if (free_.empty()) {
    if (regions_.size() > 0xffff'ffffu) {
      return failure(Code::resource_exhausted,
                     "all 2^32 memory regions are registered: deregister a region first");
    }
    free_.push_back(static_cast<std::uint32_t>(regions_.size()));
    regions_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  Region& region = regions_[slot];
  region.memory = memory;
  region.live = true;
  ++region.uses;
  return MemoryKey{std::uint64_t{region.uses} << 32 | slot};
}

bool MemoryTable::remove(MemoryKey key) {
  if (!resolve(key.key, 0, 0)) return false;
  const auto slot = static_cast<std::uint32_t>(key.key);
  regions_[slot].live = false;
  regions_[slot].memory = {};
  // A slot whose use count would wrap is retired, because keys must never repeat.
  if (regions_[slot].uses != UINT32_MAX) free_.push_back(slot);
  return true;
}

}  // namespace tutti::device::rc
