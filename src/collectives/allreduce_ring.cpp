// Ring Allreduce for P ranks: a ring Reduce-Scatter over P parts of the block, then a ring
// Allgather of the parts, in 2 (P-1) rounds. Each rank sends and receives 2 (P-1)/P times the
// block, the minimum without in-network reduction. The fold is not in rank order.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

void allreduce_ring(Builder& b) {
  const std::uint32_t ranks = b.ranks();
  b.copy(b.send_block(), b.receive_block());
  if (ranks == 1) return;
  const schedule::BufferSlice incoming = b.scratch();
  const auto part = [&](const schedule::BufferSlice& block, std::int64_t back) {
    return block.part(index(b.around(-back)), ranks);
  };
  for (std::uint32_t step = 0; step + 1 < ranks; ++step) {
    b.round(step);
    b.send(b.around(1), part(b.receive_block(), std::int64_t{step} + 1));
    b.recv(b.around(-1), part(incoming, std::int64_t{step} + 2));
    b.reduce(part(incoming, std::int64_t{step} + 2),
             part(b.receive_block(), std::int64_t{step} + 2), schedule::Side::before);
  }
  for (std::uint32_t step = 0; step + 1 < ranks; ++step) {
    b.round(ranks - 1 + step);
    b.send(b.around(1), part(b.receive_block(), step));
    b.recv(b.around(-1), part(b.receive_block(), std::int64_t{step} + 1));
  }
}

}  // namespace

AlgorithmEntries allreduce_ring_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::allreduce,
       .name = "ring",
       .summary = "2 (P-1) rounds, fewest bytes: long messages",
       .write = allreduce_ring},
  };
  return kEntries;
}

}  // namespace tutti::collectives
