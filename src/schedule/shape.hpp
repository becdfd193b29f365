// The sizes of one call. Filling a schedule with them turns symbolic segments into offsets and
// lengths [Inozemtsev12] 4.1; this path allocates nothing.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "schedule/schedule.hpp"
#include "schedule/segment.hpp"
#include "tutti/status.hpp"

namespace tutti::schedule {

/// Sizes of a buffer's blocks: equal and adjoining, or individual (the v-variants).
struct BlockSizes {
  std::uint64_t uniform_bytes = 0;
  std::span<const std::uint64_t> sizes_bytes;    ///< empty if uniform
  std::span<const std::uint64_t> offsets_bytes;  ///< as many as sizes

  bool uniform() const { return sizes_bytes.empty(); }
};

/// The sizes of one call. The arrays behind the spans must outlive fill().
struct Shape {
  std::array<BlockSizes, kBufferKinds> buffers;  ///< by Buffer
  std::uint64_t element_bytes = 1;  ///< size of an element; parts begin and end between elements
  /// Largest transfer that is eager, in bytes [Inozemtsev12] 4.1.
  std::uint64_t eager_limit_bytes = 16384;
  bool in_place = false;  ///< see in_place_alias()

  BlockSizes& of(Buffer buffer) { return buffers[static_cast<std::size_t>(buffer)]; }
  const BlockSizes& of(Buffer buffer) const { return buffers[static_cast<std::size_t>(buffer)]; }

  /// A shape in which every block of every buffer has this size.
  static Shape uniform(std::uint64_t block_bytes, std::uint64_t element_bytes = 1);
  /// Allgatherv and Gatherv: block i of the receive buffer has sizes[i] bytes at offsets[i]; the
  /// rank sends sizes[rank] bytes.
  static Shape varying(Rank rank, std::span<const std::uint64_t> sizes_bytes,
                       std::span<const std::uint64_t> offsets_bytes);
};

/// In an in-place call one segment of the caller's buffers is stored in another: the send block in
/// the rank's own block of the receive buffer (Allgather, Gather at the root), the send block in
/// the receive block (Allreduce, Reduce at the root), or the receive block in the rank's own block
/// of the send buffer (Reduce-Scatter, Scatter at the root).
struct Alias {
  Segment name;     ///< the name that the schedule uses; empty if nothing is aliased
  Segment storage;  ///< the segment that holds the bytes
};
Alias in_place_alias(Collective collective, Rank rank, Rank root);
inline Alias in_place_alias(const Purpose& purpose) {
  return in_place_alias(purpose.collective, purpose.rank, purpose.root);
}
/// Whether the collective has an in-place form; Alltoall, Barrier and Broadcast have none.
bool has_in_place(Collective collective);

/// A contiguous run of bytes of a buffer.
struct Extent {
  Buffer buffer = Buffer::none;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// The protocol of a message.
enum class Transfer : std::uint8_t { eager, rendezvous };

/// The places of a task in one call. `target` of a write and `source` of a read are the peer's.
struct FilledTask {
  Extent source;
  Extent target;
  Transfer transfer = Transfer::eager;
};

/// The bytes of a segment. Errors: blocks that do not adjoin, a block that the shape lacks.
Result<Extent> resolve(const Segment& segment, const Shape& shape, const Alias& alias = {});

/// Fills `out`, one entry a task, without allocating. A copy onto itself, as in place, gets the
/// size 0. Errors (invalid_argument): `out` too short; individual block sizes for a schedule that
/// moves several blocks at once; in place for a collective without that form.
Status fill(const Schedule& schedule, const Shape& shape, std::span<FilledTask> out);

/// Bytes of scratch that a call of this shape needs.
std::uint64_t scratch_bytes(const Schedule& schedule, const Shape& shape);

}  // namespace tutti::schedule
