// What the driver of a communicator and its receive workers (K8, K9) tell each other.
//
// The driver publishes a ReceiveView: the collective that chunks belong to now, and where they go.
// A worker pins itself (an odd number) before it reads the view, and lets go at the end of the
// batch. The driver never waits for that in the common case. Where it must know that nobody goes by
// an older view, it publishes, notes the pins (a GracePeriod) and goes on when each has moved:
//  - a view and the operation behind it are freed a grace later;
//  - a chunk that is to be READ is kept off the workers first, and read a grace later;
//  - a collective that fails gives its buffer back a grace after its view was withdrawn.
// One that succeeds needs no grace: each of its chunks is marked, and a worker never writes to the
// place of a marked chunk.
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

/// The collective that chunks arrive for. Immutable once published.
struct ReceiveView {
  enum class State : std::uint8_t {
    receiving,  ///< chunks of `epoch` are placed
    over,       ///< those of `epoch` are stale, too
    closed,     ///< all chunks are dropped
  };

  State state = State::receiving;
  std::uint32_t epoch = 0;
  const protocol::BlockLayout* layout = nullptr;  ///< null where nothing is multicast
  protocol::ChunkMap* map = nullptr;
  const SharedBitmap* kept_off = nullptr;  ///< by PSN: being read, hands off
  std::byte* buffer = nullptr;
};

/// Chunks of one block that came in one batch: what the driver measures rates by. The chunk map,
/// not this, says what has come.
struct Arrival {
  std::uint32_t epoch = 0;
  std::uint32_t block_index = 0;
  std::uint64_t bytes = 0;
  Instant at{};
};

/// Arrivals from a worker to the driver. What finds no room is dropped: a sample less.
class ArrivalQueue {
 public:
  void push(const Arrival& arrival) {
    const std::uint64_t at = pushed_.load(std::memory_order_relaxed);
    if (at - taken_.load(std::memory_order_acquire) == kCapacity) return;
    entries_[at % kCapacity] = arrival;
    pushed_.store(at + 1, std::memory_order_release);
  }
  /// Moves all to the end of `out`.
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

/// What one worker has received in one communicator.
struct ReceiveCounters {
  SingleWriterCounter batches;
  SingleWriterCounter received;
  SingleWriterCounter duplicate;
  SingleWriterCounter stale;
  SingleWriterCounter early;
  SingleWriterCounter unexpected_dropped;
  SingleWriterCounter out_of_order;
  SingleWriterCounter malformed;
  SingleWriterCounter damaged;
};

/// Where the driver and the workers of one communicator leave word for each other. Everything that
/// one side writes and then looks at the other side's word for is sequentially consistent.
struct ReceiveBoard {
  // By the driver.
  alignas(64) std::atomic<const ReceiveView*> view{nullptr};
  std::atomic<std::uint64_t> publications{0};  ///< changes after `view` does
  std::atomic<std::uint64_t> looks_asked{0};
  std::atomic<bool> eager{false};  ///< every batch is worth waking the driver for
  // By the workers.
  alignas(64) std::atomic<bool> news{false};
  /// Wakes the driver where it sleeps; set before a worker runs.
  std::function<void()> wake_driver;
};

/// Whether a header fits the collective. `block_index` is any block (most chunks follow one
/// another: give that of the last chunk) and becomes that of the chunk.
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
