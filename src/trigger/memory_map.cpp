#include "trigger/memory_map.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace tutti::trigger {

Result<Address> MemoryMap::add(JobId job, std::span<std::byte> memory) {
  const auto free = std::find_if(regions_.begin(), regions_.end(),
                                 [](const Region& region) { return !region.used; });
  const auto at = static_cast<std::uint64_t>(free - regions_.begin());
  if (at >= kMaxRegions) {
    return failure(Code::resource_exhausted,
                   "offload: job {} cannot register memory, because all {} regions are in use: "
                   "close a job first",
                   index(job), kMaxRegions);
  }
  if (free == regions_.end()) regions_.emplace_back();
  regions_[at] = {true, job, memory};
  return static_cast<Address>(at << kOffsetBits);
}

void MemoryMap::remove(JobId job) {
  for (Region& region : regions_) {
    if (region.used && region.job == job) region = Region();
  }
}

std::optional<std::span<std::byte>> MemoryMap::find(JobId job, Address address,
                                                    std::uint64_t size_bytes) const {
  const std::uint64_t at = static_cast<std::uint64_t>(address) >> kOffsetBits;
  const std::uint64_t offset =
      static_cast<std::uint64_t>(address) & ((std::uint64_t{1} << kOffsetBits) - 1);
  if (at >= regions_.size() || !regions_[at].used || regions_[at].job != job) return std::nullopt;
  const std::span<std::byte> memory = regions_[at].memory;
  if (offset > memory.size() || size_bytes > memory.size() - offset) return std::nullopt;
  return memory.subspan(offset, size_bytes);
}

}  // namespace tutti::trigger
