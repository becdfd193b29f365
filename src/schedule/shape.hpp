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

/// The sizes of a buffer's blocks: equal sizes without gaps between blocks, or individual sizes and
/// offsets.
struct BlockSizes {
  std::uint64_t uniform_bytes = 0;
  /// Size of each block in bytes; empty if all blocks have uniform_bytes.
  std::span<const std::uint64_t> sizes_bytes;
  /// Offset of each block in bytes, one for each entry of sizes_bytes.
  std::span<const std::uint64_t> offsets_bytes;

  bool uniform() const { return sizes_bytes.empty(); }
};

/// The sizes of one call. The arrays to which its spans refer must outlive fill().
struct Shape {
  std::array<BlockSizes, kBufferKinds> buffers;  ///< block sizes, indexed by Buffer
  /// Size of an element in bytes. The parts of a block consist of whole elements.
  std::uint64_t element_bytes = 1;
  /// Size in bytes of the longest message that is sent eagerly ([Inozemtsev12] 4.1).
  std::uint64_t eager_limit_bytes = 16384;
  bool in_place = false;  ///< true: send and receive buffer share memory, see in_place_alias()

  BlockSizes& of(Buffer buffer) { return buffers[static_cast<std::size_t>(buffer)]; }
  const BlockSizes& of(Buffer buffer) const { return buffers[static_cast<std::size_t>(buffer)]; }

  /// A shape in which every block of every buffer has `block_bytes` bytes.
  static Shape uniform(std::uint64_t block_bytes, std::uint64_t element_bytes = 1);
  /// A shape with the given block sizes of the send and the receive buffer; its scratch blocks are
  /// empty.
  static Shape varying(const BlockSizes& send, const BlockSizes& receive);
};

/// The memory that send and receive buffer share in an in-place call. In an Allgather, for example,
/// the send block lies in the rank's own block of the receive buffer; in a Reduce-Scatter, the
/// receive block lies in the rank's own block of the send buffer.
struct Alias {
  BufferSlice name;     ///< shared memory, as tasks name it; empty: none
  BufferSlice storage;  ///< the same bytes, as a slice of the caller's other buffer
};
Alias in_place_alias(Collective collective, Rank rank, Rank root);
inline Alias in_place_alias(const Purpose& purpose) {
  return in_place_alias(purpose.collective, purpose.rank, purpose.root);
}
/// True if the collective has an in-place form; Alltoall, Barrier and Broadcast have none.
bool has_in_place(Collective collective);

/// A contiguous range of bytes in a buffer.
struct Extent {
  Buffer buffer = Buffer::none;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// The protocol by which a message is sent.
enum class Transfer : std::uint8_t { eager, rendezvous };

/// A task's source and target in one call, as ranges of bytes. The target of a write and the source
/// of a read lie in the peer's memory.
struct FilledTask {
  Extent source;
  Extent target;
  Transfer transfer = Transfer::eager;
};

/// Returns the bytes of a slice. Fails if the blocks of the slice are not contiguous, or if the
/// shape lacks one of these blocks.
Result<Extent> resolve(const BufferSlice& slice, const Shape& shape, const Alias& alias = {});

/// Fills one entry of `out` for each task, without allocating memory; a copy of a slice onto itself
/// gets size 0. Fails with invalid_argument if `out` is too short, if the shape has individual
/// block sizes although the schedule needs equal ones, or if the shape is in place although the
/// collective has no in-place form.
Status fill(const Schedule& schedule, const Shape& shape, std::span<FilledTask> out);

/// Bytes of scratch that a call with the sizes of `shape` needs.
std::uint64_t scratch_bytes(const Schedule& schedule, const Shape& shape);

}  // namespace tutti::schedule
