// Bruck's Alltoall for short messages: ceil(log2 P) rounds for P ranks, and a block is sent at most
// once a round. A rank first rotates its blocks, so that block i is for the rank i positions to its
// right. In round j the blocks whose index has bit j set are packed into one message and move 2^j
// ranks to the right. In the end block i comes from the rank i positions to the left.
#include <algorithm>

#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

/// Calls visit(first, count, packed) for each run of consecutive blocks whose index is below
/// `ranks` and has `bit` set. `packed` is the number of blocks in all earlier runs.
template <typename Visit>
std::uint32_t for_each_run(std::uint32_t ranks, std::uint32_t bit, const Visit& visit) {
  std::uint32_t packed = 0;
  for (std::uint32_t first = bit; first < ranks; first += 2 * bit) {
    const std::uint32_t count = std::min(bit, ranks - first);
    visit(first, count, packed);
    packed += count;
  }
  return packed;
}

void alltoall_bruck(Builder& b) {
  const std::uint32_t ranks = b.ranks();
  const std::uint32_t me = b.me();
  const auto scratch = [](std::uint32_t first, std::uint32_t count) {
    return blocks_of(schedule::Buffer::scratch, first, count);
  };
  const auto sent = [](std::uint32_t first, std::uint32_t count) {
    return blocks_of(schedule::Buffer::send, first, count);
  };
  // Layout of scratch: the rotated blocks, then the packed blocks to be sent, then the received
  // blocks.
  const std::uint32_t most = (ranks + 1) / 2;
  const std::uint32_t out = ranks;
  const std::uint32_t in = ranks + most;
  b.scratch(ranks + 2 * most);
  b.copy(sent(me, ranks - me), scratch(0, ranks - me));
  if (me > 0) b.copy(sent(0, me), scratch(ranks - me, me));

  std::uint32_t round = 0;
  for (std::uint32_t bit = 1; bit < ranks; bit *= 2) {
    b.round(round++);
    const std::uint32_t packed =
        for_each_run(ranks, bit, [&](std::uint32_t first, std::uint32_t count, std::uint32_t at) {
          b.copy(scratch(first, count), scratch(out + at, count));
        });
    b.send(b.around(bit), scratch(out, packed));
    b.recv(b.around(-std::int64_t{bit}), scratch(in, packed));
    for_each_run(ranks, bit, [&](std::uint32_t first, std::uint32_t count, std::uint32_t at) {
      b.copy(scratch(in + at, count), scratch(first, count));
    });
  }
  b.round(round);
  for (std::uint32_t i = 0; i < ranks; ++i)
    b.copy(scratch(i, 1), b.receive_block(index(b.around(-std::int64_t{i}))));
}

}  // namespace

AlgorithmEntries alltoall_bruck_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::alltoall,
       .name = "bruck",
       .summary = "ceil(log2 P) rounds, packed: short messages",
       .write = alltoall_bruck},
  };
  return kEntries;
}

}  // namespace tutti::collectives
