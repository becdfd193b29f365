#include "protocol/chunk_map.hpp"

#include <algorithm>

namespace tutti::protocol {

namespace {

constexpr std::size_t kHorizonsPerLine = 64 / sizeof(std::uint32_t);

}  // namespace

ChunkMap::ChunkMap(const BlockLayout& layout)
    : layout_(&layout), progress_(std::make_unique<Progress[]>(layout.subgroups())) {
  const std::size_t blocks = layout.blocks().size();
  horizon_stride_ = (blocks + kHorizonsPerLine - 1) / kHorizonsPerLine * kHorizonsPerLine;
  horizons_ = std::make_unique<std::atomic<std::uint32_t>[]>(horizon_stride_ * layout.subgroups());
  std::uint64_t words = 0;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    const Block& block = layout.blocks()[b];
    bit_offsets_.push_back(static_cast<std::uint32_t>(words * 64) - block.psns.first);
    for (std::uint32_t s = 0; s < layout.subgroups(); ++s) {
      horizon_at(b, s).store(block.psns.first, std::memory_order_relaxed);
    }
    words += (block.psns.size() + 63) / 64;
  }
  bits_ = SharedBitmap(words * 64);
}

std::uint32_t ChunkMap::mark_run(std::uint32_t block_index, Range psns) {
  if (psns.empty()) return 0;
  const std::uint32_t end = bit_of(block_index, psns.last - 1) + 1;
  std::uint32_t fresh = 0;
  for (std::uint32_t at = bit_of(block_index, psns.first); at < end;) {
    const std::uint32_t stop = std::min(end, (at / 64 + 1) * 64);
    fresh += bits_.set_word_atomic({at, stop});
    at = stop;
  }
  // Sequentially consistent: the owner and a worker each store their own count and then read the
  // other's. So at least one of the threads sees that the map is complete.
  marked_by_owner_.store(marked_by_owner_.load(std::memory_order_relaxed) + fresh,
                         std::memory_order_seq_cst);
  return fresh;
}

Range ChunkMap::first_missing(std::uint32_t block_index, Range psns) const {
  const std::uint32_t base = bit_of(block_index, psns.first);
  const Range run = bits_.first_clear_run({base, base + psns.size()});
  return {run.first - base + psns.first, run.last - base + psns.first};
}

}  // namespace tutti::protocol
