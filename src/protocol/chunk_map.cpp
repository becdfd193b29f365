#include "protocol/chunk_map.hpp"

namespace tutti::protocol {

ChunkMap::ChunkMap(const BlockLayout& layout)
    : layout_(&layout), progress_(std::make_unique<Progress[]>(layout.subgroups())) {
  std::uint64_t words = 0;
  for (const Block& block : layout.blocks()) {
    first_bits_.push_back(static_cast<std::uint32_t>(words * 64));
    horizons_.insert(horizons_.end(), layout.subgroups(), block.psns.first);
    words += (block.psns.size() + 63) / 64;
  }
  bits_ = Bitmap(words * 64);
}

std::uint32_t ChunkMap::mark_run(std::uint32_t block_index, Range psns) {
  const Block& block = layout_->blocks()[block_index];
  std::uint32_t fresh = 0;
  for (std::uint32_t psn = psns.first; psn < psns.last; ++psn) {
    if (!bits_.set(bit_of(block_index, psn))) continue;
    progress_[layout_->subgroup_of(block, psn)].marked.fetch_add(1, std::memory_order_release);
    ++fresh;
  }
  return fresh;
}

Range ChunkMap::first_missing(std::uint32_t block_index, Range psns) const {
  const std::uint32_t base = bit_of(block_index, psns.first);
  const Range run = bits_.first_clear_run({base, base + psns.size()});
  return {run.first - base + psns.first, run.last - base + psns.first};
}

std::uint64_t ChunkMap::marked() const {
  std::uint64_t sum = 0;
  for (std::uint32_t s = 0; s < layout_->subgroups(); ++s) {
    sum += progress_[s].marked.load(std::memory_order_acquire);
  }
  return sum;
}

}  // namespace tutti::protocol
