#include "schedule/shape.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "schedule/text.hpp"

namespace tutti::schedule {

namespace {

/// Converts a position within a block, as a fraction of its length, to an offset in bytes.
std::uint64_t border_bytes(Fraction at, std::uint64_t block_bytes, std::uint64_t element_bytes) {
  if (at.index == at.parts) return block_bytes;
  return part_border(block_bytes / element_bytes, at.index, at.parts) * element_bytes;
}

/// The offset and size of a slice in a buffer whose blocks have individual sizes. The slice must
/// consist of whole blocks.
Result<Extent> resolve_varying(const BufferSlice& slice, const BlockSizes& blocks) {
  if (slice.last_block() > blocks.sizes_bytes.size() ||
      blocks.offsets_bytes.size() != blocks.sizes_bytes.size())
    return failure(Code::invalid_argument,
                   "the buffer slice {} needs {} blocks, but the call gives {} sizes and {} "
                   "offsets: give a size and an offset for each block",
                   to_string(slice), slice.last_block(), blocks.sizes_bytes.size(),
                   blocks.offsets_bytes.size());
  Extent extent{slice.buffer, blocks.offsets_bytes[slice.first_block], 0};
  for (std::uint32_t b = slice.first_block; b < slice.last_block(); ++b) {
    if (blocks.offsets_bytes[b] != extent.offset_bytes + extent.size_bytes)
      return failure(
          Code::invalid_argument,
          "the buffer slice {} is not contiguous, because block {} begins at byte {} instead of "
          "{}: choose an algorithm that moves single blocks ('ring', 'linear')",
          to_string(slice), b, blocks.offsets_bytes[b], extent.offset_bytes + extent.size_bytes);
    extent.size_bytes += blocks.sizes_bytes[b];
  }
  return extent;
}

/// The slice of the caller's memory that holds the bytes of `slice`. In an in-place call, this may
/// be a slice of the caller's other buffer.
BufferSlice storage_of(const BufferSlice& slice, const Alias& alias) {
  if (alias.name.empty() || !contains(alias.name, slice)) return slice;
  BufferSlice result = slice;
  result.buffer = alias.storage.buffer;
  result.first_block = alias.storage.first_block;
  return result;
}

/// The memory that the send and the receive buffer share at `rank`; empty if the call is not in
/// place.
Alias alias_at(const Schedule& schedule, const Shape& shape, Rank rank) {
  if (!shape.in_place) return {};
  const Purpose& purpose = schedule.purpose();
  return in_place_alias(purpose.collective, rank, purpose.root);
}

Status check_shape(const Schedule& schedule, const Shape& shape, std::size_t room) {
  if (room < schedule.tasks().size())
    return failure(Code::invalid_argument,
                   "the output array has {} entries for {} tasks: give one entry for each task",
                   room, schedule.tasks().size());
  if (shape.element_bytes == 0)
    return failure(Code::invalid_argument, "the element size is 0 bytes: give at least 1");
  if (shape.in_place && !has_in_place(schedule.purpose().collective))
    return failure(Code::invalid_argument,
                   "{} cannot be called in place: give separate send and receive buffers",
                   to_string(schedule.purpose().collective));
  for (const BlockSizes& blocks : shape.buffers) {
    if (!blocks.uniform() && !schedule.single_blocks())
      return failure(Code::invalid_argument,
                     "the {} algorithm '{}' moves several blocks at once and needs blocks of equal "
                     "size: choose an algorithm that moves single blocks ('ring', 'linear')",
                     to_string(schedule.purpose().collective), schedule.purpose().algorithm);
  }
  return {};
}

}  // namespace

Shape Shape::uniform(std::uint64_t block_bytes, std::uint64_t element_bytes) {
  Shape shape;
  for (BlockSizes& blocks : shape.buffers) blocks.uniform_bytes = block_bytes;
  shape.element_bytes = element_bytes;
  return shape;
}

Shape Shape::varying(const BlockSizes& send, const BlockSizes& receive) {
  Shape shape;
  shape.of(Buffer::send) = send;
  shape.of(Buffer::receive) = receive;
  return shape;
}

Alias in_place_alias(Collective collective, Rank rank, Rank root) {
  const BufferSlice sent = block_of(Buffer::send, 0);
  const BufferSlice received = block_of(Buffer::receive, 0);
  const bool at_root = rank == root;
  switch (collective) {
    case Collective::allgather:
    case Collective::allgatherv:
      return {sent, block_of(Buffer::receive, tutti::index(rank))};
    case Collective::gather:
    case Collective::gatherv:
      return at_root ? Alias{sent, block_of(Buffer::receive, tutti::index(rank))} : Alias{};
    case Collective::scatter:
    case Collective::scatterv:
      return at_root ? Alias{received, block_of(Buffer::send, tutti::index(rank))} : Alias{};
    case Collective::allreduce:
      return {sent, received};
    case Collective::reduce:
      return at_root ? Alias{sent, received} : Alias{};
    case Collective::reduce_scatter:
    case Collective::reduce_scatterv:
      return {received, block_of(Buffer::send, tutti::index(rank))};
    case Collective::barrier:
    case Collective::broadcast:
    case Collective::alltoall:
    case Collective::alltoallv:
      return {};
  }
  return {};
}

bool has_in_place(Collective collective) {
  return collective != Collective::barrier && collective != Collective::broadcast &&
         collective != Collective::alltoall && collective != Collective::alltoallv;
}

Result<Extent> resolve(const BufferSlice& slice, const Shape& shape, const Alias& alias) {
  if (slice.empty()) return Extent{};
  const BufferSlice place = storage_of(slice, alias);
  const BlockSizes& blocks = shape.of(place.buffer);
  Extent extent{place.buffer, place.first_block * blocks.uniform_bytes,
                place.block_count * blocks.uniform_bytes};
  if (!blocks.uniform()) {
    Result<Extent> varying = resolve_varying(place, blocks);
    if (!varying) return varying;
    extent = *varying;
  }
  if (place.whole_blocks()) return extent;
  const std::uint64_t first = border_bytes(place.begin(), extent.size_bytes, shape.element_bytes);
  const std::uint64_t last = border_bytes(place.end(), extent.size_bytes, shape.element_bytes);
  return Extent{place.buffer, extent.offset_bytes + first, last - first};
}

Status fill(const Schedule& schedule, const Shape& shape, std::span<FilledTask> out) {
  if (Status checked = check_shape(schedule, shape, out.size()); !checked) return checked;
  const Alias here = alias_at(schedule, shape, schedule.rank());
  const std::span<const Task> tasks = schedule.tasks();
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const Task& task = tasks[t];
    const Alias there = alias_at(schedule, shape, task.peer);
    const Result<Extent> source =
        resolve(task.source, shape, task.kind == TaskKind::read ? there : here);
    if (!source) return source.status();
    const Result<Extent> target =
        resolve(task.target, shape, task.kind == TaskKind::write ? there : here);
    if (!target) return target.status();
    out[t].source = *source;
    out[t].target = *target;
    if (task.kind == TaskKind::copy && *source == *target) {
      out[t].source.size_bytes = 0;
      out[t].target.size_bytes = 0;
    }
    const std::uint64_t bytes = std::max(source->size_bytes, target->size_bytes);
    out[t].transfer = bytes <= shape.eager_limit_bytes ? Transfer::eager : Transfer::rendezvous;
  }
  return {};
}

std::uint64_t scratch_bytes(const Schedule& schedule, const Shape& shape) {
  return schedule.blocks(Buffer::scratch) * shape.of(Buffer::scratch).uniform_bytes;
}

}  // namespace tutti::schedule
