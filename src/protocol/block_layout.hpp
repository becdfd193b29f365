// How the blocks of a collective are cut into chunks, and which subgroup carries which chunk.
//
// PSN is the index of a chunk in the whole receive buffer (K1). A block's PSNs are consecutive.
// Within a block, subgroups take contiguous slices of a segment in turn (K9): a block that is no
// longer than a segment is simply cut into S contiguous parts; a longer one repeats the pattern
// segment by segment, so that a window of credits never starves a subgroup.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bits.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

/// One source's contribution.
struct Block {
  Rank root = kNoRank;
  std::uint64_t offset_bytes = 0;  ///< in the receive buffer
  std::uint64_t size_bytes = 0;
  Range psns;
};

class BlockLayout {
 public:
  BlockLayout() = default;
  /// `segment_bytes` bounds how far the subgroups' slices lie apart.
  BlockLayout(std::uint32_t chunk_bytes, std::uint32_t subgroups, std::uint64_t segment_bytes);

  /// Appends the next block; its PSNs follow the previous block's. False where the 32-bit PSN space
  /// is exhausted.
  bool add(Rank root, std::uint64_t offset_bytes, std::uint64_t size_bytes);

  const std::vector<Block>& blocks() const { return blocks_; }
  std::uint32_t chunk_bytes() const { return chunk_bytes_; }
  std::uint32_t subgroups() const { return subgroups_; }
  std::uint32_t chunk_count() const { return blocks_.empty() ? 0 : blocks_.back().psns.last; }

  /// Index of the block that holds a PSN (psn < chunk_count()).
  std::uint32_t block_of(std::uint32_t psn) const;
  /// Where a chunk lies in the receive buffer, and its length.
  std::uint64_t offset_of(const Block& block, std::uint32_t psn) const {
    return block.offset_bytes + std::uint64_t{psn - block.psns.first} * chunk_bytes_;
  }
  std::uint32_t length_of(const Block& block, std::uint32_t psn) const;
  /// Bytes of a run of chunks of one block.
  std::uint64_t bytes_of(const Block& block, Range psns) const;

  /// The subgroup that carries a chunk.
  std::uint32_t subgroup_of(const Block& block, std::uint32_t psn) const {
    return (psn - block.psns.first) % segment_chunks_ / slice_chunks_;
  }
  /// Chunks of a segment: S slices.
  std::uint32_t segment_chunks() const { return segment_chunks_; }
  /// Consecutive chunks of one subgroup: a multiple of 64, so that no two subgroups' workers ever
  /// share a word of the chunk map.
  std::uint32_t slice_chunks() const { return slice_chunks_; }

 private:
  std::uint32_t chunk_bytes_ = 1;
  std::uint32_t subgroups_ = 1;
  std::uint32_t segment_chunks_ = 1;
  std::uint32_t slice_chunks_ = 1;
  std::vector<Block> blocks_;
};

}  // namespace tutti::protocol
