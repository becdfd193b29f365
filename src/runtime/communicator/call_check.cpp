#include "runtime/communicator/call_check.hpp"

#include <algorithm>
#include <span>

#include "base/error.hpp"
#include "reduction/reducer.hpp"
#include "schedule/shape.hpp"

namespace tutti::runtime {

namespace {

Status wrong(const CollectiveCall& call, const std::string& what) {
  return failure(Code::invalid_argument, "{}: {}", to_string(call.collective), what);
}

/// Checks that the buffer `large` is `size` times as long as the buffer `small`.
Status holds_blocks(const CollectiveCall& call, const char* name, std::uint64_t large,
                    std::uint64_t small, std::uint32_t size) {
  if (large / size == small && large % size == 0) return {};
  return wrong(call, fmt::format("the {} buffer has {} bytes, but {} ranks x {} bytes need {}: "
                                 "give it that size",
                                 name, large, size, small, small * size));
}

Status same_size(const CollectiveCall& call) {
  if (call.send.size() == call.receive.size()) return {};
  return wrong(call, fmt::format("the send buffer has {} bytes and the receive buffer {}: give "
                                 "them the same size",
                                 call.send.size(), call.receive.size()));
}

/// The blocks of one buffer, which may differ in size.
struct Blocks {
  const char* buffer;  ///< name of the buffer in error texts
  std::uint64_t bytes;
  std::span<const std::uint64_t> sizes_bytes;
  std::span<const std::uint64_t> offsets_bytes;
};

Blocks sent_blocks(const CollectiveCall& call) {
  return {"send", call.send.size(), call.send_sizes_bytes, call.send_offsets_bytes};
}

Blocks received_blocks(const CollectiveCall& call) {
  return {"receive", call.receive.size(), call.sizes_bytes, call.offsets_bytes};
}

Status check_varying(const CollectiveCall& call, const Blocks& blocks, std::uint32_t size) {
  if (blocks.sizes_bytes.size() != size || blocks.offsets_bytes.size() != size)
    return wrong(call, fmt::format("the call gives {} sizes and {} offsets for the {} blocks of {} "
                                   "ranks: give one size and one offset per rank",
                                   blocks.sizes_bytes.size(), blocks.offsets_bytes.size(),
                                   blocks.buffer, size));
  for (std::uint32_t r = 0; r < size; ++r) {
    const std::uint64_t offset = blocks.offsets_bytes[r];
    const std::uint64_t bytes = blocks.sizes_bytes[r];
    if (offset > blocks.bytes || bytes > blocks.bytes - offset)
      return wrong(
          call,
          fmt::format(
              "rank {}'s block of {} bytes at offset {} does not fit the {} buffer of {} bytes", r,
              bytes, offset, blocks.buffer, blocks.bytes));
  }
  return {};
}

/// Checks the blocks of a buffer whose blocks may differ in size. The block of this rank itself
/// must have `own_bytes` bytes, because that is its size in the other buffer of the call.
Status check_varying(const CollectiveCall& call, const Blocks& blocks, std::uint64_t own_bytes,
                     Rank rank, std::uint32_t size) {
  if (Status status = check_varying(call, blocks, size); !status) return status;
  if (own_bytes == blocks.sizes_bytes[index(rank)]) return {};
  return wrong(call,
               fmt::format("the own block of rank {} has {} bytes, but its size in the {} "
                           "buffer is given as {}: give the same size for both",
                           index(rank), own_bytes, blocks.buffer, blocks.sizes_bytes[index(rank)]));
}

Status check_sizes(const CollectiveCall& call, Rank rank, std::uint32_t size) {
  const bool at_root = rank == call.root;
  switch (call.collective) {
    case Collective::barrier:
    case Collective::broadcast:
      return {};
    case Collective::allgather:
      return holds_blocks(call, "receive", call.receive.size(), call.send.size(), size);
    case Collective::gather:
      if (!at_root) return {};
      return holds_blocks(call, "receive", call.receive.size(), call.send.size(), size);
    case Collective::scatter:
      if (!at_root) return {};
      return holds_blocks(call, "send", call.send.size(), call.receive.size(), size);
    case Collective::reduce_scatter:
      return holds_blocks(call, "send", call.send.size(), call.receive.size(), size);
    case Collective::allgatherv:
      return check_varying(call, received_blocks(call), call.send.size(), rank, size);
    case Collective::gatherv:
      if (!at_root) return {};
      return check_varying(call, received_blocks(call), call.send.size(), rank, size);
    case Collective::scatterv:
      if (!at_root) return {};
      return check_varying(call, sent_blocks(call), call.receive.size(), rank, size);
    case Collective::reduce_scatterv:
      return check_varying(call, sent_blocks(call), call.receive.size(), rank, size);
    case Collective::alltoallv:
      if (Status status = check_varying(call, received_blocks(call), size); !status) return status;
      return check_varying(call, sent_blocks(call), call.sizes_bytes[index(rank)], rank, size);
    case Collective::alltoall:
      if (Status status = same_size(call); !status) return status;
      return holds_blocks(call, "send", call.send.size(), call.send.size() / size, size);
    case Collective::reduce:
      return at_root ? same_size(call) : Status();
    case Collective::allreduce:
      return same_size(call);
  }
  return {};
}

Status check_elements(const CollectiveCall& call) {
  if (!reduces(call.collective)) return {};
  const std::uint64_t bytes =
      call.collective == Collective::reduce_scatter ? call.receive.size() : call.send.size();
  const std::uint64_t element = element_bytes(call.reduction.type);
  const std::span<const std::uint64_t> sizes =
      varies(call.collective) ? call.send_sizes_bytes : std::span(&bytes, 1);
  const auto broken = std::find_if(sizes.begin(), sizes.end(),
                                   [&](std::uint64_t size) { return size % element != 0; });
  if (broken == sizes.end()) return {};
  return wrong(call,
               fmt::format("{} bytes are not a whole number of {} elements: use a multiple of "
                           "{} bytes",
                           *broken, to_string(call.reduction.type), element));
}

/// True for an Alltoall that receives into the buffer from which it sends. The engine then sends
/// from a copy.
bool exchanges_in_place(const CollectiveCall& call) {
  const bool exchanges =
      call.collective == Collective::alltoall || call.collective == Collective::alltoallv;
  return exchanges && call.send.data() == call.receive.data() &&
         call.send.size() == call.receive.size();
}

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() &&
         b.data() < a.data() + a.size();
}

}  // namespace

CollectiveCall without_unused_buffers(CollectiveCall call, Rank rank) {
  const auto is = [&](Collective collective) { return call.collective == collective; };
  if (is(Collective::barrier) || is(Collective::broadcast)) call.send = {};
  if (is(Collective::barrier)) call.receive = {};
  const bool at_root = rank == call.root;
  const bool exchanges = is(Collective::alltoallv);
  if (!exchanges && !is(Collective::allgatherv) && !(is(Collective::gatherv) && at_root))
    call.sizes_bytes = call.offsets_bytes = {};
  if (!exchanges && !is(Collective::reduce_scatterv) && !(is(Collective::scatterv) && at_root))
    call.send_sizes_bytes = call.send_offsets_bytes = {};
  return call;
}

Status check_enumerators(const CollectiveCall& call) {
  const auto number = static_cast<std::uint32_t>(call.collective);
  if (number >= kCollectives)
    return failure(Code::invalid_argument,
                   "no collective has the number {}: use a value of Collective", number);
  if (!reduces(call.collective)) return {};
  return reduction::Reducer::create(call.reduction.operation, call.reduction.type).status();
}

Status check_call(const CollectiveCall& call, Rank rank, std::uint32_t size) {
  if (!exists(call.options.priority))
    return wrong(call, fmt::format("priority {} does not exist: use low (-1), normal (0) or high "
                                   "(1)",
                                   static_cast<int>(call.options.priority)));
  if (has_root(call.collective) && index(call.root) >= size)
    return wrong(call, fmt::format("root {} is not one of the {} ranks: use a rank below {}",
                                   index(call.root), size, size));
  if (Status status = check_sizes(call, rank, size); !status) return status;
  if (Status status = check_elements(call); !status) return status;
  const std::uint64_t block = block_bytes_of(call, size);
  const bool one_buffer =
      call.collective == Collective::barrier || call.collective == Collective::broadcast;
  if (one_buffer || is_in_place(call, rank, block) || exchanges_in_place(call)) return {};
  if (!overlap(call.send, call.receive)) return {};
  if (schedule::has_in_place(call.collective))
    return wrong(call,
                 "the send and receive buffers overlap: use separate buffers, or place the block "
                 "as a call in place requires");
  return wrong(call, "the send and receive buffers overlap: use separate buffers, or one for both");
}

std::uint64_t block_bytes_of(const CollectiveCall& call, std::uint32_t size) {
  switch (call.collective) {
    case Collective::barrier:
      return 0;
    case Collective::broadcast:
    case Collective::scatter:
    case Collective::reduce_scatter:
      return call.receive.size();
    case Collective::allgather:
    case Collective::gather:
    case Collective::reduce:
    case Collective::allreduce:
      return call.send.size();
    case Collective::alltoall:
      return call.send.size() / size;
    case Collective::gatherv:
    case Collective::scatterv:
    case Collective::alltoallv:
    case Collective::reduce_scatterv:
      return 0;
    case Collective::allgatherv:
      return call.sizes_bytes.empty()
                 ? 0
                 : *std::max_element(call.sizes_bytes.begin(), call.sizes_bytes.end());
  }
  return 0;
}

bool is_in_place(const CollectiveCall& call, Rank rank, std::uint64_t block_bytes) {
  const std::byte* const send = call.send.data();
  const std::byte* const receive = call.receive.data();
  const std::uint64_t own = index(rank) * block_bytes;
  if (call.send.empty() || call.receive.empty()) return false;
  switch (call.collective) {
    case Collective::allgather:
      return send == receive + own;
    case Collective::allgatherv:
      return send == receive + call.offsets_bytes[index(rank)];
    case Collective::gatherv:
      return rank == call.root && send == receive + call.offsets_bytes[index(rank)];
    case Collective::scatterv:
      return rank == call.root && receive == send + call.send_offsets_bytes[index(rank)];
    case Collective::reduce_scatterv:
      return receive == send + call.send_offsets_bytes[index(rank)];
    case Collective::gather:
      return rank == call.root && send == receive + own;
    case Collective::scatter:
      return rank == call.root && receive == send + own;
    case Collective::reduce_scatter:
      return receive == send + own;
    case Collective::allreduce:
      return send == receive;
    case Collective::reduce:
      return rank == call.root && send == receive;
    case Collective::barrier:
    case Collective::broadcast:
    case Collective::alltoall:
    case Collective::alltoallv:
      return false;
  }
  return false;
}

}  // namespace tutti::runtime
