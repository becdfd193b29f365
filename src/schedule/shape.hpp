// The sizes of one call, and a schedule filled with them (C3): symbolic segments become offsets and
// lengths. Nothing is allocated on this path.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "schedule/schedule.hpp"
#include "schedule/segment.hpp"
#include "tutti/status.hpp"

namespace tutti::schedule {

/// Sizes of a buffer's blocks: all alike and adjoining, or each its own (the v-variants).
struct BlockSizes {
  std::uint64_t uniform_bytes = 0;
  std::span<const std::uint64_t> sizes_bytes;    ///< empty: uniform
  std::span<const std::uint64_t> offsets_bytes;  ///< where each block begins; as many as sizes

  bool uniform() const { return sizes_bytes.empty(); }
  std::uint64_t size_of(std::uint32_t block) const {
    return uniform() ? uniform_bytes : sizes_bytes[block];
  }
};

/// One call's sizes. The caller keeps what the spans point to for as long as fill() runs.
struct Shape {
  std::array<BlockSizes, kBufferKinds> buffers;  ///< by Buffer
  std::uint64_t element_bytes = 1;               ///< parts begin and end between elements
  std::uint64_t eager_limit_bytes = 16384;       ///< transfers up to this size are eager (C4, C5)
  bool in_place = false;                         ///< see in_place_alias()

  BlockSizes& of(Buffer buffer) { return buffers[static_cast<std::size_t>(buffer)]; }
  const BlockSizes& of(Buffer buffer) const { return buffers[static_cast<std::size_t>(buffer)]; }

  /// Every block of every buffer has this size.
  static Shape uniform(std::uint64_t block_bytes, std::uint64_t element_bytes = 1);
  /// Allgatherv and Gatherv: block i of the receive buffer has sizes[i] bytes and begins at
  /// offsets[i]; the rank sends sizes[rank] bytes.
  static Shape varying(Rank rank, std::span<const std::uint64_t> sizes_bytes,
                       std::span<const std::uint64_t> offsets_bytes);
};

/// In place, one segment of the caller's buffers is another's storage: the send block is the rank's
/// own block of the receive buffer (Allgather, Gather at the root), the send block is the receive
/// block (Allreduce, Reduce at the root), the receive block is the rank's own block of the send
/// buffer (Reduce-Scatter, Scatter at the root).
struct Alias {
  Segment name;     ///< what the schedule calls it; empty: nothing is aliased here
  Segment storage;  ///< where it lies
};
Alias in_place_alias(Collective collective, Rank rank, Rank root);
inline Alias in_place_alias(const Purpose& purpose) {
  return in_place_alias(purpose.collective, purpose.rank, purpose.root);
}
/// Whether the collective can be called in place at all (Alltoall and Barrier cannot).
bool has_in_place(Collective collective);

/// A contiguous run of bytes of a buffer.
struct Extent {
  Buffer buffer = Buffer::none;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// How a message travels.
enum class Transfer : std::uint8_t { eager, rendezvous };

/// A task's places in one call. For write, `target` is the peer's; for read, `source` is.
struct FilledTask {
  Extent source;
  Extent target;
  Transfer transfer = Transfer::eager;
};

/// Where a segment lies. Errors: blocks that do not adjoin, a block that the shape lacks.
Result<Extent> resolve(const Segment& segment, const Shape& shape, const Alias& alias = {});

/// Fills `out`, one entry per task, without allocating. An in-place copy onto itself gets the size
/// 0. Errors (invalid_argument): `out` too short; sizes that differ by block for a schedule that
/// moves several blocks at once; in place for a collective that has no such form.
Status fill(const Schedule& schedule, const Shape& shape, std::span<FilledTask> out);

/// Bytes of scratch that a call of this shape needs.
std::uint64_t scratch_bytes(const Schedule& schedule, const Shape& shape);

}  // namespace tutti::schedule
