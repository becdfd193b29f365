// A store for chunks of collectives that this rank has not begun, because a faster rank may be one
// call ahead. Chunks are verified when they are stored, and the senders' credits bound their
// number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "engine/core/by_epoch.hpp"
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

  explicit UnexpectedChunks(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Stores a chunk. Returns false if there is no room, or if the integrity check fails, which sets
  /// `damaged`.
  bool keep(const device::ReceivedChunk& chunk, device::MulticastQueuePair& queue_pair,
            bool& damaged) {
    damaged = false;
    if (bytes_ + chunk.payload.size() > limit_bytes_) return false;
    const std::size_t bytes = chunk.payload.size();
    Chunk kept{chunk.psn, chunk.source, bytes, std::make_unique_for_overwrite<std::byte[]>(bytes)};
    damaged = !queue_pair.copy_and_verify(chunk, kept.storage.get());
    if (damaged) return false;
    bytes_ += bytes;
    chunks_.keep(chunk.epoch, std::move(kept));
    return true;
  }
  /// Removes and returns the chunks of one epoch.
  std::vector<Chunk> take(std::uint32_t epoch) { return counted_out(chunks_.take(epoch)); }
  /// Drops the chunks of all epochs before `epoch`; returns their number.
  std::size_t drop_before(std::uint32_t epoch) {
    return counted_out(chunks_.take_before(epoch)).size();
  }
  bool empty() const { return chunks_.empty(); }

 private:
  std::vector<Chunk> counted_out(std::vector<Chunk> chunks) {
    for (const Chunk& chunk : chunks) bytes_ -= chunk.bytes;
    return chunks;
  }

  std::uint64_t limit_bytes_;
  std::uint64_t bytes_ = 0;
  ByEpoch<Chunk> chunks_;
};

}  // namespace tutti::engine
