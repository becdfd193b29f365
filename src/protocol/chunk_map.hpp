// Which chunks of a collective have come (K2): one bit a chunk, progress is the count of set bits,
// a duplicate changes nothing.
//
// Each block's bits start at a word of their own and a subgroup's slices are whole words, so that
// receive workers of different subgroups never write one word, nor one count.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/bits.hpp"
#include "protocol/block_layout.hpp"

namespace tutti::protocol {

class ChunkMap {
 public:
  explicit ChunkMap(const BlockLayout& layout);

  /// Marks a chunk; false for a duplicate.
  bool mark(const Block& block, std::uint32_t block_index, std::uint32_t psn) {
    Progress& progress = progress_[layout_->subgroup_of(block, psn)];
    std::uint32_t& horizon =
        horizons_[block_index * layout_->subgroups() + layout_->subgroup_of(block, psn)];
    if (psn >= horizon) horizon = psn + 1;
    if (!bits_.set(bit_of(block_index, psn))) return false;
    progress.marked.store(progress.marked.load(std::memory_order_relaxed) + 1,
                          std::memory_order_release);
    return true;
  }
  /// Marks a run that lies in one block, read or written by the caller itself; returns how many
  /// chunks were new.
  std::uint32_t mark_run(std::uint32_t block_index, Range psns);

  bool has(std::uint32_t block_index, std::uint32_t psn) const {
    return bits_.test(bit_of(block_index, psn));
  }
  /// The first run of missing chunks within `psns` of one block; empty where none is missing.
  Range first_missing(std::uint32_t block_index, Range psns) const;
  /// One past the highest PSN of a block that came by a subgroup; psns.first where none came.
  std::uint32_t horizon(std::uint32_t block_index, std::uint32_t subgroup) const {
    return horizons_[block_index * layout_->subgroups() + subgroup];
  }

  std::uint64_t marked() const;
  bool complete() const { return marked() == layout_->chunk_count(); }
  const BlockLayout& layout() const { return *layout_; }

 private:
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> marked{0};
  };

  std::uint32_t bit_of(std::uint32_t block_index, std::uint32_t psn) const {
    return first_bits_[block_index] + (psn - layout_->blocks()[block_index].psns.first);
  }

  const BlockLayout* layout_;
  Bitmap bits_;
  std::vector<std::uint32_t> first_bits_;
  std::vector<std::uint32_t> horizons_;
  std::unique_ptr<Progress[]> progress_;
};

}  // namespace tutti::protocol
