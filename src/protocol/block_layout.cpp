#include "protocol/block_layout.hpp"

#include <algorithm>

namespace tutti::protocol {

namespace {

constexpr std::uint32_t kWordBits = 64;

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

}  // namespace

BlockLayout::BlockLayout(std::uint32_t chunk_bytes, std::uint32_t subgroups,
                         std::uint64_t segment_bytes)
    : chunk_bytes_(chunk_bytes), subgroups_(subgroups) {
  const std::uint64_t chunks = chunks_of(segment_bytes, chunk_bytes);
  const std::uint64_t words = divide_up(divide_up(chunks, subgroups), kWordBits);
  slice_chunks_ = static_cast<std::uint32_t>(std::max<std::uint64_t>(words, 1) * kWordBits);
  segment_chunks_ = slice_chunks_ * subgroups_;
}

bool BlockLayout::add(Rank root, std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  const std::uint64_t first = chunk_count();
  const std::uint64_t chunks = chunks_of(size_bytes, chunk_bytes_);
  if (chunks > kMaxChunks - first) return false;
  const std::uint64_t last = first + chunks;
  blocks_.push_back({root,
                     offset_bytes,
                     size_bytes,
                     {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last)}});
  return true;
}

std::uint32_t BlockLayout::block_of(std::uint32_t psn) const {
  const auto after = std::upper_bound(
      blocks_.begin(), blocks_.end(), psn,
      [](std::uint32_t value, const Block& block) { return value < block.psns.last; });
  return static_cast<std::uint32_t>(after - blocks_.begin());
}

std::uint32_t BlockLayout::length_of(const Block& block, std::uint32_t psn) const {
  if (psn + 1 < block.psns.last) return chunk_bytes_;
  return static_cast<std::uint32_t>(block.size_bytes -
                                    std::uint64_t{block.psns.size() - 1} * chunk_bytes_);
}

std::uint64_t BlockLayout::bytes_of(const Block& block, Range psns) const {
  if (psns.empty()) return 0;
  return std::uint64_t{psns.size() - 1} * chunk_bytes_ + length_of(block, psns.last - 1);
}

}  // namespace tutti::protocol
