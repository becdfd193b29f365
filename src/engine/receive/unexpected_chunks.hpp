// A store for chunks of collectives that this rank has not begun: a faster rank may be one call
// ahead. Chunks are verified when they are stored. The senders' credits bound the number of
// different chunks; tail probes may bring the same chunk many times. A rank that ignores its
// credits cannot exhaust the memory, because short chunks, too, use up the limit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/circular.hpp"
#include "device/device.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class UnexpectedChunks {
 public:
  struct Chunk {
    std::uint32_t epoch = 0;
    std::uint32_t psn = 0;
    Rank source{};
    std::size_t bytes = 0;
    std::unique_ptr<std::byte[]> storage{};

    std::span<std::byte> payload() const { return {storage.get(), bytes}; }
    /// Sorts by epoch first. Epochs wrap at 2^32, so all stored epochs must lie less than 2^31
    /// apart.
    friend bool operator<(const Chunk& a, const Chunk& b) {
      if (a.epoch != b.epoch) return circular_before(a.epoch, b.epoch);
      return std::tie(a.psn, a.source) < std::tie(b.psn, b.source);
    }
  };

  /// Result of an attempt to store a chunk.
  enum class Kept : std::uint8_t {
    stored,
    duplicate,  ///< the store holds this chunk already
    no_room,
    damaged,  ///< the integrity check failed
  };

  /// The limit counts the chunks' payloads, and shorter ones as kLeastBytes.
  explicit UnexpectedChunks(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  Kept keep(const device::ReceivedChunk& chunk, device::MulticastQueuePair& queue_pair) {
    Chunk kept{chunk.epoch, chunk.psn, chunk.source, chunk.payload.size()};
    if (chunks_.contains(kept)) return Kept::duplicate;
    if (bytes_ + charge(kept.bytes) > limit_bytes_) return Kept::no_room;
    kept.storage = std::make_unique_for_overwrite<std::byte[]>(kept.bytes);
    if (!queue_pair.copy_and_verify(chunk, kept.storage.get())) return Kept::damaged;
    bytes_ += charge(kept.bytes);
    chunks_.insert(std::move(kept));
    return Kept::stored;
  }
  /// Removes and returns the chunks of one epoch.
  std::vector<Chunk> take(std::uint32_t epoch) {
    return take(chunks_.lower_bound({epoch}), chunks_.lower_bound({epoch + 1}));
  }
  /// Drops the chunks of all epochs before `epoch`; returns their number.
  std::size_t drop_before(std::uint32_t epoch) {
    return take(chunks_.begin(), chunks_.lower_bound({epoch})).size();
  }
  bool empty() const { return chunks_.empty(); }

  /// The bytes of the limit that the chunks of one block use up.
  static std::uint64_t charge_of(std::uint64_t block_bytes, std::uint32_t chunk_bytes) {
    const std::size_t rest = block_bytes % chunk_bytes;
    return block_bytes / chunk_bytes * charge(chunk_bytes) + (rest > 0 ? charge(rest) : 0);
  }

 private:
  /// About as much memory as an entry takes besides its payload.
  static constexpr std::size_t kLeastBytes = 64;

  static std::size_t charge(std::size_t bytes) { return std::max(bytes, kLeastBytes); }
  std::vector<Chunk> take(std::set<Chunk>::iterator first, std::set<Chunk>::iterator last) {
    std::vector<Chunk> taken;
    while (first != last) {
      bytes_ -= charge(first->bytes);
      taken.push_back(std::move(chunks_.extract(first++).value()));
    }
    return taken;
  }

  std::uint64_t limit_bytes_;
  std::uint64_t bytes_ = 0;
  std::set<Chunk> chunks_;
};

}  // namespace tutti::engine
