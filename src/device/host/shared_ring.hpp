// The two kinds of ring in shared memory: frames from one rank to one other rank, and chunks from
// one rank to all other ranks.
//
// A writer publishes by a release store to a growing count that readers load with acquire; readers
// return room in the same way. A faulty peer may write any value, so positions and sizes are
// checked before use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

#include "tutti/units.hpp"

namespace tutti::device::host {

inline constexpr std::size_t kCacheLineBytes = 64;

/// A counter on a cache line of its own.
struct alignas(kCacheLineBytes) SharedCount {
  std::atomic<std::uint64_t> value;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(SharedCount) == kCacheLineBytes);

/// The header of a frame ring: how many bytes were written to it and read from it.
struct FrameRingControl {
  SharedCount written;  ///< bytes written so far, stored by the only writer
  SharedCount read;     ///< bytes read so far, stored by the only reader
};

constexpr std::size_t frame_ring_bytes(std::size_t capacity_bytes) {
  return sizeof(FrameRingControl) + capacity_bytes;
}

// A record in a frame ring consists of the length of the frame (8 bytes) and the frame, which is
// padded to a multiple of 8 bytes. Records do not wrap: if a record does not fit before the end of
// the ring, the remaining bytes are skipped and marked by the length kSkip.
inline constexpr std::uint64_t kSkip = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::size_t kRecordHeadBytes = 8;

constexpr std::size_t record_bytes(std::size_t frame_bytes) {
  return kRecordHeadBytes + (frame_bytes + 7) / 8 * 8;
}

/// The writing end of a frame ring.
class FrameWriter {
 public:
  FrameWriter() = default;
  /// `memory` has frame_ring_bytes(capacity) bytes, with a capacity that is a multiple of 8.
  explicit FrameWriter(std::span<std::byte> memory)
      : control_(reinterpret_cast<FrameRingControl*>(memory.data())),
        bytes_(memory.subspan(sizeof(FrameRingControl))),
        written_(control_->written.value.load(std::memory_order_relaxed)) {}

  /// Reserves room for a frame and returns it, or null if the ring is full. The reader sees the
  /// frame only after `commit`.
  std::byte* reserve(std::size_t frame_bytes) {
    const std::size_t need = record_bytes(frame_bytes);
    const std::size_t at = written_ % bytes_.size();
    const std::size_t to_end = bytes_.size() - at;
    const std::size_t skipped = need <= to_end ? 0 : to_end;
    if (!has_room(skipped + need)) return nullptr;
    if (skipped > 0) {
      std::memcpy(&bytes_[at], &kSkip, kRecordHeadBytes);
      written_ += skipped;
    }
    const std::uint64_t size = frame_bytes;
    std::byte* const record = &bytes_[written_ % bytes_.size()];
    std::memcpy(record, &size, kRecordHeadBytes);
    written_ += need;
    return record + kRecordHeadBytes;
  }
  void commit() { control_->written.value.store(written_, std::memory_order_release); }

 private:
  bool has_room(std::size_t bytes) {
    if (written_ + bytes - read_ <= bytes_.size()) return true;
    read_ = control_->read.value.load(std::memory_order_acquire);
    return written_ + bytes - read_ <= bytes_.size();
  }

  FrameRingControl* control_ = nullptr;
  std::span<std::byte> bytes_;
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;  ///< reader's position, as last seen by the writer
};

/// The reading end of a frame ring.
class FrameReader {
 public:
  FrameReader() = default;
  explicit FrameReader(std::span<std::byte> memory)
      : control_(reinterpret_cast<FrameRingControl*>(memory.data())),
        bytes_(memory.subspan(sizeof(FrameRingControl))) {}

  bool empty() const { return control_->written.value.load(std::memory_order_acquire) == read_; }
  /// The next frame, valid until `pop`. Empty if there is no frame or if its record is invalid (see
  /// `broken`).
  std::span<const std::byte> front() {
    if (written_ == read_) written_ = control_->written.value.load(std::memory_order_acquire);
    // A correct writer is ahead of this reader by at most the length of the ring. Without this
    // check, a forged count could keep the loop below busy for ever.
    broken_ = written_ - read_ > bytes_.size();
    if (broken_) return {};
    while (written_ != read_) {
      const std::size_t at = read_ % bytes_.size();
      const std::size_t to_end = bytes_.size() - at;
      // The size is loaded once, so that the peer cannot change it between the check and the use.
      const std::uint64_t size = std::atomic_ref(*reinterpret_cast<std::uint64_t*>(&bytes_[at]))
                                     .load(std::memory_order_relaxed);
      if (size == kSkip && to_end <= written_ - read_) {
        read_ += to_end;
        continue;
      }
      broken_ = size == 0 || size > to_end || record_bytes(size) > to_end ||
                record_bytes(size) > written_ - read_;
      if (broken_) return {};
      return bytes_.subspan(at + kRecordHeadBytes, size);
    }
    return {};
  }
  /// Removes the frame that `front` returned, so that the writer can reuse the room.
  void pop(std::size_t frame_bytes) {
    read_ += record_bytes(frame_bytes);
    control_->read.value.store(read_, std::memory_order_release);
  }
  /// True if the peer wrote an invalid record or count.
  bool broken() const { return broken_; }

 private:
  FrameRingControl* control_ = nullptr;
  std::span<std::byte> bytes_;
  std::uint64_t read_ = 0;
  std::uint64_t written_ = 0;  ///< writer's position, as last seen by the reader
  bool broken_ = false;
};

/// The header of a chunk, in its slot of a chunk ring.
struct ChunkHead {
  std::uint32_t epoch = 0;
  std::uint32_t psn = 0;
  std::uint32_t bytes = 0;
  std::uint32_t probe = 0;  ///< 1 for a membership probe, which has no payload; else 0
};

/// The layout of a chunk ring: the number of chunks written, for each rank the number of chunks
/// that it has read, and the slots.
struct ChunkRingShape {
  std::uint32_t ranks = 0;
  std::uint32_t slots = 0;
  std::uint32_t chunk_bytes = 0;

  std::size_t slot_bytes() const {
    return (sizeof(ChunkHead) + chunk_bytes + kCacheLineBytes - 1) / kCacheLineBytes *
           kCacheLineBytes;
  }
  std::size_t slots_offset() const { return (1 + std::size_t{ranks}) * sizeof(SharedCount); }
  std::size_t bytes() const { return slots_offset() + slots * slot_bytes(); }
};

/// One rank's chunk ring: that rank writes it, and every other rank reads it and has a read count
/// of its own.
class ChunkRing {
 public:
  ChunkRing() = default;
  ChunkRing(std::span<std::byte> memory, const ChunkRingShape& shape)
      : memory_(memory), shape_(shape) {}

  std::atomic<std::uint64_t>& written() const { return count(0); }
  std::atomic<std::uint64_t>& read_by(Rank rank) const { return count(1 + index(rank)); }
  const ChunkRingShape& shape() const { return shape_; }
  std::byte* slot(std::uint64_t number) const {
    return &memory_[shape_.slots_offset() + number % shape_.slots * shape_.slot_bytes()];
  }

 private:
  std::atomic<std::uint64_t>& count(std::size_t number) const {
    return reinterpret_cast<SharedCount*>(memory_.data())[number].value;
  }

  std::span<std::byte> memory_;
  ChunkRingShape shape_;
};

}  // namespace tutti::device::host
