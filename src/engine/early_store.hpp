// Chunks of collectives that this rank has not begun yet: a faster rank may be one call ahead.
// Kept, verified, within a bound; the credits see to it that the bound holds.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "base/circular.hpp"
#include "device/device.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class EarlyStore {
 public:
  struct Chunk {
    std::uint32_t epoch;
    std::uint32_t psn;
    Rank source;
    std::vector<std::byte> payload;
  };

  explicit EarlyStore(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Keeps a chunk; false where there is no room or its integrity does not hold (`damaged`).
  bool keep(const device::ReceivedChunk& chunk, device::MulticastQueuePair& queue_pair,
            bool& damaged) {
    damaged = false;
    if (bytes_ + chunk.payload.size() > limit_bytes_) return false;
    Chunk kept{chunk.epoch, chunk.psn, chunk.source, std::vector<std::byte>(chunk.payload.size())};
    damaged = !queue_pair.place(chunk, kept.payload.data());
    if (damaged) return false;
    bytes_ += kept.payload.size();
    chunks_.push_back(std::move(kept));
    return true;
  }
  /// Moves out the chunks of one epoch.
  std::vector<Chunk> take(std::uint32_t epoch) {
    std::vector<Chunk> taken;
    std::deque<Chunk> rest;
    for (Chunk& chunk : chunks_) {
      if (chunk.epoch == epoch) {
        bytes_ -= chunk.payload.size();
        taken.push_back(std::move(chunk));
      } else {
        rest.push_back(std::move(chunk));
      }
    }
    chunks_.swap(rest);
    return taken;
  }
  /// Drops the chunks of the epochs before `epoch`; returns how many.
  std::size_t drop_before(std::uint32_t epoch) {
    return std::erase_if(chunks_, [&](const Chunk& chunk) {
      const bool past = circular_before(chunk.epoch, epoch);
      if (past) bytes_ -= chunk.payload.size();
      return past;
    });
  }
  bool empty() const { return chunks_.empty(); }

 private:
  std::uint64_t limit_bytes_;
  std::uint64_t bytes_ = 0;
  std::deque<Chunk> chunks_;
};

}  // namespace tutti::engine
