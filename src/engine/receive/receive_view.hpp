// The data that the owner of the engine and the receive workers of a communicator share
// ([Khalilov24] 4.3).
//
// The owner publishes a ReceiveView: the collective being received and the places of its chunks. A
// worker's read guard is a number: the worker makes it odd before it reads the view, and even at
// the end of the batch.
//
// The owner waits for a grace period before it frees an old view, READs a chunk into the buffer or
// returns the buffer of a failed collective. First it publishes a new view, or locks the chunk
// against writes by workers. Then it records the guards of all workers, and waits until each guard
// that was odd has changed.
//
// A successful collective needs no grace period: all its chunks are marked as present, and a worker
// never writes a marked chunk.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/shared_bits.hpp"
#include "base/tally.hpp"
#include "protocol/block_layout.hpp"
#include "protocol/chunk_map.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

/// The collective being received. A view does not change once published.
struct ReceiveView {
  enum class State : std::uint8_t {
    receiving,  ///< chunks of `epoch` are placed
    over,       ///< chunks of `epoch` are stale, like those of earlier epochs
    closed,     ///< chunks of any epoch are dropped
  };

  State state = State::receiving;
  std::uint32_t epoch = 0;
  /// Layout of the chunks; null if nothing is multicast.
  const protocol::BlockLayout* layout = nullptr;
  protocol::ChunkMap* map = nullptr;
  /// By PSN: true while the chunk is being READ and no worker may write it.
  const SharedBitmap* read_locked = nullptr;
  std::byte* buffer = nullptr;
};

/// Chunks of one block that arrived in one batch, for measuring rates. The chunk map, not this
/// record, tells which chunks are present.
struct Arrival {
  std::uint32_t epoch = 0;
  std::uint32_t block_index = 0;
  std::uint64_t bytes = 0;
  Instant at{};
};

/// An intact chunk that does not fit the collective `epoch`, because its sender called the
/// collective with other sizes.
struct Misfit {
  std::uint32_t epoch = 0;
  Rank source = kNoRank;
  std::size_t bytes = 0;  ///< size of the chunk in bytes
};

/// A queue of arrivals from a worker to the owner. If the queue is full an arrival is dropped,
/// which costs only a rate sample.
class ArrivalQueue {
 public:
  void push(const Arrival& arrival) {
    const std::uint64_t at = pushed_.load(std::memory_order_relaxed);
    if (at - taken_.load(std::memory_order_acquire) == kCapacity) return;
    entries_[at % kCapacity] = arrival;
    pushed_.store(at + 1, std::memory_order_release);
  }
  /// Moves all arrivals to the end of `out`.
  void take(std::vector<Arrival>& out) {
    const std::uint64_t end = pushed_.load(std::memory_order_acquire);
    std::uint64_t at = taken_.load(std::memory_order_relaxed);
    for (; at != end; ++at) out.push_back(entries_[at % kCapacity]);
    taken_.store(at, std::memory_order_release);
  }

 private:
  static constexpr std::uint64_t kCapacity = 256;

  std::array<Arrival, kCapacity> entries_;
  alignas(64) std::atomic<std::uint64_t> pushed_{0};
  alignas(64) std::atomic<std::uint64_t> taken_{0};
};

/// The counts of one worker in one communicator.
struct ReceiveCounters {
  SingleWriterCounter batches;
  SingleWriterCounter received;
  SingleWriterCounter duplicate;
  SingleWriterCounter stale;
  SingleWriterCounter unexpected;
  SingleWriterCounter unexpected_dropped;
  SingleWriterCounter out_of_order;
  SingleWriterCounter malformed;
  SingleWriterCounter damaged;
};

/// The variables that the owner and the workers of one communicator share. If a thread writes its
/// variable and then reads one that another thread writes, both accesses must be sequentially
/// consistent.
struct ReceiveBoard {
  // Variables that the owner writes.
  alignas(64) std::atomic<const ReceiveView*> view{nullptr};
  /// Number of views published so far; incremented after each change of `view`.
  std::atomic<std::uint64_t> publications{0};
  std::atomic<std::uint64_t> drains_requested{0};
  std::atomic<bool> eager{false};  ///< true: every batch wakes the owner
  // Variables that the workers write.
  alignas(64) std::atomic<bool> news{false};
  /// Wakes a sleeping owner; set before any worker runs.
  std::function<void()> wake_owner;
};

/// True if a chunk's header fits the collective. On entry `block_index` is a guess, preferably the
/// block of the previous chunk; on return `block_index` is the block of this chunk.
inline bool plausible(const protocol::BlockLayout& layout, std::uint32_t psn, Rank source,
                      std::size_t bytes, std::uint32_t& block_index) {
  if (psn >= layout.chunk_count()) return false;
  if (block_index >= layout.blocks().size()) block_index = 0;
  const Range last = layout.blocks()[block_index].psns;
  if (psn < last.first || psn >= last.last) block_index = layout.block_of(psn);
  const protocol::Block& block = layout.blocks()[block_index];
  return block.root == source && layout.length_of(block, psn) == bytes;
}

}  // namespace tutti::engine
