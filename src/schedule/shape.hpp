// The sizes of one call. Filling a schedule with a shape turns symbolic slices into offsets and
// lengths ([Inozemtsev12] 4.1), without allocating memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "schedule/buffer_slice.hpp"
#include "schedule/schedule.hpp"
#include "tutti/status.hpp"

namespace tutti::schedule {

/// The sizes of a buffer's blocks: equal and adjoining, or individual (Allgatherv).
struct BlockSizes {
  std::uint64_t uniform_bytes = 0;
  /// Size of each block in bytes; empty if all are uniform.
  std::span<const std::uint64_t> sizes_bytes;
  /// Offset of each block in bytes; as many as sizes_bytes.
  std::span<const std::uint64_t> offsets_bytes;

  bool uniform() const { return sizes_bytes.empty(); }
};

/// The sizes of one call. The arrays behind the spans must outlive fill().
struct Shape {
  std::array<BlockSizes, kBufferKinds> buffers;  ///< block sizes of each buffer, by Buffer
  /// Size of an element in bytes; parts begin and end between elements.
  std::uint64_t element_bytes = 1;
  /// Size in bytes of the longest message that is sent eagerly ([Inozemtsev12] 4.1).
  std::uint64_t eager_limit_bytes = 16384;
  bool in_place = false;  ///< true: send and receive buffer share memory, see in_place_alias()

  BlockSizes& of(Buffer buffer) { return buffers[static_cast<std::size_t>(buffer)]; }
  const BlockSizes& of(Buffer buffer) const { return buffers[static_cast<std::size_t>(buffer)]; }

  /// A shape in which every block of every buffer has `block_bytes` bytes.
  static Shape uniform(std::uint64_t block_bytes, std::uint64_t element_bytes = 1);
  /// A shape for Allgatherv and Gatherv: block i of the receive buffer has sizes_bytes[i] bytes at
  /// offsets_bytes[i], and rank r sends sizes_bytes[r] bytes.
  static Shape varying(Rank rank, std::span<const std::uint64_t> sizes_bytes,
                       std::span<const std::uint64_t> offsets_bytes);
};

/// The storage that an in-place call shares: the send block is stored in the rank's own block of
/// the receive buffer (Allgather, Gather at the root), the send block in the receive block
/// (Allreduce, Reduce at the root), or the receive block in the rank's own block of the send buffer
/// (Reduce-Scatter, Scatter at the root).
struct Alias {
  BufferSlice name;     ///< slice that the schedule names; empty if the call aliases nothing
  BufferSlice storage;  ///< slice that holds its bytes
};
Alias in_place_alias(Collective collective, Rank rank, Rank root);
inline Alias in_place_alias(const Purpose& purpose) {
  return in_place_alias(purpose.collective, purpose.rank, purpose.root);
}
/// True if the collective has an in-place form; Alltoall, Barrier and Broadcast have none.
bool has_in_place(Collective collective);

/// A contiguous run of bytes of a buffer.
struct Extent {
  Buffer buffer = Buffer::none;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// The protocol by which a message is sent.
enum class Transfer : std::uint8_t { eager, rendezvous };

/// The places of a task in one call. The `target` of a write and the `source` of a read lie in the
/// peer's memory.
struct FilledTask {
  Extent source;
  Extent target;
  Transfer transfer = Transfer::eager;
};

/// Finds the bytes of a slice. Fails if its blocks do not adjoin or the shape lacks one of them.
Result<Extent> resolve(const BufferSlice& slice, const Shape& shape, const Alias& alias = {});

/// Fills `out`, one entry for each task, without allocating memory; a copy of a place onto itself
/// gets the size 0. Fails with invalid_argument if `out` is too short, if the schedule moves
/// several blocks at once but they have individual sizes, or if the collective has no in-place form
/// but the call is in place.
Status fill(const Schedule& schedule, const Shape& shape, std::span<FilledTask> out);

/// Bytes of scratch that a call with the sizes of `shape` needs.
std::uint64_t scratch_bytes(const Schedule& schedule, const Shape& shape);

}  // namespace tutti::schedule
