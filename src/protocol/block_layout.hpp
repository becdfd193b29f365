// Cuts the blocks of a collective into chunks and assigns each chunk to a subgroup.
//
// The PSN of a chunk is its index in the whole receive buffer ([Khalilov24] 3.2); the PSNs of a
// block are consecutive. Subgroups take contiguous slices of a block ([Khalilov24] 4.3). A block
// longer than a segment repeats this pattern segment by segment, so that a credit window always
// contains chunks of every subgroup.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bits.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

/// The block that one root contributes: its bytes in the receive buffer, and the PSNs of its
/// chunks.
struct Block {
  Rank root = kNoRank;
  std::uint64_t offset_bytes = 0;  ///< offset in the receive buffer
  std::uint64_t size_bytes = 0;
  Range psns;
};

class BlockLayout {
 public:
  /// A collective may have at most this many chunks, because PSNs have 32 bits.
  static constexpr std::uint64_t kMaxChunks = 0xffff'ffff;
  /// Number of chunks of a block; its last chunk may be shorter than the others.
  static constexpr std::uint64_t chunks_of(std::uint64_t block_bytes, std::uint32_t chunk_bytes) {
    return block_bytes / chunk_bytes + (block_bytes % chunk_bytes != 0 ? 1 : 0);
  }

  BlockLayout() = default;
  /// `segment_bytes` is the length after which the pattern of subgroup slices repeats.
  BlockLayout(std::uint32_t chunk_bytes, std::uint32_t subgroups, std::uint64_t segment_bytes);

  /// Appends the block of `root`; its PSNs follow those of the previous block. False if there
  /// would be more than kMaxChunks chunks.
  [[nodiscard]] bool add(Rank root, std::uint64_t offset_bytes, std::uint64_t size_bytes);

  const std::vector<Block>& blocks() const { return blocks_; }
  std::uint32_t chunk_bytes() const { return chunk_bytes_; }
  std::uint32_t subgroups() const { return subgroups_; }
  std::uint32_t chunk_count() const { return blocks_.empty() ? 0 : blocks_.back().psns.last; }

  /// Index of the block to which a PSN belongs (psn < chunk_count()).
  std::uint32_t block_of(std::uint32_t psn) const;
  /// Offset of a chunk in the receive buffer, in bytes.
  std::uint64_t offset_of(const Block& block, std::uint32_t psn) const {
    return block.offset_bytes + std::uint64_t{psn - block.psns.first} * chunk_bytes_;
  }
  std::uint32_t length_of(const Block& block, std::uint32_t psn) const;
  /// Size in bytes of a run of chunks of one block.
  std::uint64_t bytes_of(const Block& block, Range psns) const;

  /// The subgroup that carries a chunk.
  std::uint32_t subgroup_of(const Block& block, std::uint32_t psn) const {
    return (psn - block.psns.first) % segment_chunks_ / slice_chunks_;
  }
  /// Number of chunks in a segment, which has one slice for each subgroup.
  std::uint32_t segment_chunks() const { return segment_chunks_; }
  /// Length of a slice: one subgroup carries this many consecutive chunks of a segment. A multiple
  /// of 64, so that the receive workers of two subgroups never share a word of the chunk map.
  std::uint32_t slice_chunks() const { return slice_chunks_; }

 private:
  std::uint32_t chunk_bytes_ = 1;
  std::uint32_t subgroups_ = 1;
  std::uint32_t segment_chunks_ = 1;
  std::uint32_t slice_chunks_ = 1;
  std::vector<Block> blocks_;
};

}  // namespace tutti::protocol
