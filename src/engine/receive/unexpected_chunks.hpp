// A store for chunks of collectives that this rank has not begun, because a faster rank may be one
// call ahead. Chunks are verified when they are stored. The senders' credits bound the number of
// different chunks; tail probes may bring the same chunk many times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
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
    std::uint32_t psn;
    Rank source;
    std::size_t bytes;
    std::unique_ptr<std::byte[]> storage;

    std::span<std::byte> payload() const { return {storage.get(), bytes}; }
  };

  /// Result of an attempt to store a chunk.
  enum class Kept : std::uint8_t {
    stored,
    duplicate,  ///< the store holds this chunk already
    no_room,
    damaged,  ///< the integrity check failed
  };

  explicit UnexpectedChunks(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  Kept keep(const device::ReceivedChunk& chunk, device::MulticastQueuePair& queue_pair) {
    const Place place{chunk.epoch, chunk.psn, chunk.source};
    if (chunks_.contains(place)) return Kept::duplicate;
    const std::size_t bytes = chunk.payload.size();
    if (bytes_ + bytes > limit_bytes_) return Kept::no_room;
    Chunk kept{chunk.psn, chunk.source, bytes, std::make_unique_for_overwrite<std::byte[]>(bytes)};
    if (!queue_pair.copy_and_verify(chunk, kept.storage.get())) return Kept::damaged;
    bytes_ += bytes;
    chunks_.emplace(place, std::move(kept));
    return Kept::stored;
  }
  /// Removes and returns the chunks of one epoch.
  std::vector<Chunk> take(std::uint32_t epoch) {
    return take(chunks_.lower_bound({epoch, 0, rank_of(0)}),
                chunks_.lower_bound({epoch + 1, 0, rank_of(0)}));
  }
  /// Drops the chunks of all epochs before `epoch`; returns their number.
  std::size_t drop_before(std::uint32_t epoch) {
    return take(chunks_.begin(), chunks_.lower_bound({epoch, 0, rank_of(0)})).size();
  }
  bool empty() const { return chunks_.empty(); }

 private:
  /// Sorted by epoch first. Epochs wrap at 2^32, so all stored epochs must lie less than 2^31 apart.
  struct Place {
    std::uint32_t epoch;
    std::uint32_t psn;
    Rank source;

    friend bool operator<(const Place& a, const Place& b) {
      if (a.epoch != b.epoch) return circular_before(a.epoch, b.epoch);
      return std::tie(a.psn, a.source) < std::tie(b.psn, b.source);
    }
  };
  using Chunks = std::map<Place, Chunk>;

  std::vector<Chunk> take(Chunks::iterator first, Chunks::iterator last) {
    std::vector<Chunk> taken;
    for (auto one = first; one != last; ++one) {
      bytes_ -= one->second.bytes;
      taken.push_back(std::move(one->second));
    }
    chunks_.erase(first, last);
    return taken;
  }

  std::uint64_t limit_bytes_;
  std::uint64_t bytes_ = 0;
  Chunks chunks_;
};

}  // namespace tutti::engine
