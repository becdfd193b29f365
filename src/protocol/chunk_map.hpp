// The chunks of a collective that have arrived: one bit a chunk ([Khalilov24] 3.2). The progress is
// the number of set bits; a duplicate changes nothing.
//
// Each block's bits begin at a new word, and a subgroup's slice is a whole number of words. So
// receive workers of different subgroups never write the same word, count or horizon (end of the
// arrived PSNs).
//
// One thread marks the arrivals of a subgroup. The owner of the engine marks the chunks that this
// rank has READ, and the chunks of its own block (`mark_run`). A receive worker marks arrivals by
// `mark_atomic` and counts them by `count`. Without receive workers the owner marks arrivals by
// `mark`, which does both without a locked instruction.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/shared_bits.hpp"
#include "protocol/block_layout.hpp"

namespace tutti::protocol {

class ChunkMap {
 public:
  explicit ChunkMap(const BlockLayout& layout);

  /// Marks an arrived chunk of a map that only one thread marks; false for a duplicate.
  bool mark(std::uint32_t block_index, std::uint32_t subgroup, std::uint32_t psn) {
    const bool fresh = bits_.set(bit_of(block_index, psn));
    reach(block_index, subgroup, psn);
    if (fresh) count(subgroup, 1);
    return fresh;
  }
  /// Marks an arrived chunk while the owner may mark other chunks; false for a duplicate. The
  /// progress includes the chunk only after the next `count`.
  bool mark_atomic(std::uint32_t block_index, std::uint32_t subgroup, std::uint32_t psn) {
    const bool fresh = bits_.set_atomic(bit_of(block_index, psn));
    reach(block_index, subgroup, psn);
    return fresh;
  }
  /// Adds `fresh` chunks to the progress of a subgroup. Only the thread that marks the arrivals of
  /// this subgroup may call this function.
  void count(std::uint32_t subgroup, std::uint64_t fresh) {
    std::atomic<std::uint64_t>& arrived = progress_[subgroup].arrived;
    arrived.store(arrived.load(std::memory_order_relaxed) + fresh, std::memory_order_release);
  }
  /// Marks consecutive chunks of one block, which this rank has READ from a peer or contributed
  /// itself; returns the number of newly marked chunks.
  std::uint32_t mark_run(std::uint32_t block_index, Range psns);

  bool has(std::uint32_t block_index, std::uint32_t psn) const {
    return bits_.test(bit_of(block_index, psn));
  }
  /// The first run of missing chunks of a block within `psns`; empty if no chunk is missing.
  Range first_missing(std::uint32_t block_index, Range psns) const;
  /// 1 + the highest PSN of this block that has arrived through the subgroup; the block's first PSN
  /// if none has arrived. A thread that reads this value also sees the marks of all earlier
  /// arrivals through the subgroup.
  std::uint32_t horizon(std::uint32_t block_index, std::uint32_t subgroup) const {
    return horizon_at(block_index, subgroup).load(std::memory_order_acquire);
  }

  std::uint64_t marked() const {
    std::uint64_t sum = marked_by_owner_.load(std::memory_order_seq_cst);
    for (std::uint32_t s = 0; s < layout_->subgroups(); ++s) {
      sum += progress_[s].arrived.load(std::memory_order_acquire);
    }
    return sum;
  }
  bool complete() const { return marked() == layout_->chunk_count(); }
  const BlockLayout& layout() const { return *layout_; }

 private:
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> arrived{0};
  };

  std::uint32_t bit_of(std::uint32_t block_index, std::uint32_t psn) const {
    return bit_offsets_[block_index] + psn;
  }
  std::atomic<std::uint32_t>& horizon_at(std::uint32_t block_index, std::uint32_t subgroup) const {
    return horizons_[subgroup * horizon_stride_ + block_index];
  }
  void reach(std::uint32_t block_index, std::uint32_t subgroup, std::uint32_t psn) {
    std::atomic<std::uint32_t>& horizon = horizon_at(block_index, subgroup);
    // The caller sets the chunk's bit before the horizon is raised. So a chunk below the horizon
    // whose bit is not set is lost or reordered.
    if (psn >= horizon.load(std::memory_order_relaxed)) {
      horizon.store(psn + 1, std::memory_order_release);
    }
  }

  const BlockLayout* layout_;
  SharedBitmap bits_;
  /// By block: index of the block's first bit minus the block's first PSN, modulo 2^32.
  std::vector<std::uint32_t> bit_offsets_;
  /// Number of entries in a subgroup's row of horizons_, padded to whole cache lines so that no two
  /// subgroups share a cache line.
  std::size_t horizon_stride_ = 0;
  std::unique_ptr<std::atomic<std::uint32_t>[]> horizons_;
  std::unique_ptr<Progress[]> progress_;
  std::atomic<std::uint64_t> marked_by_owner_{0};
};

}  // namespace tutti::protocol
