// Ring Allgather ([Inozemtsev12] 4.1): in each of P-1 rounds for P ranks, a rank sends to its right
// neighbour the block that it last received from its left one. A rank uses two connections, and
// each carries a block at most once. Each block is a message of its own and arrives at its final
// position, so blocks may have different sizes (Allgatherv).
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

void allgather_ring(Builder& b) {
  b.copy(b.send_block(), b.receive_block(b.me()));
  for (std::uint32_t step = 0; step + 1 < b.ranks(); ++step) {
    const std::uint32_t mine = index(b.around(-std::int64_t{step}));
    const std::uint32_t next = index(b.around(-std::int64_t{step} - 1));
    b.round(step);
    b.send(b.around(1), step == 0 ? b.send_block() : b.receive_block(mine));
    b.recv(b.around(-1), b.receive_block(next));
  }
}

}  // namespace

AlgorithmEntries allgather_ring_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::allgather,
       .name = "ring",
       .summary = "P-1 rounds, two connections: long messages",
       .write = allgather_ring},
      {.collective = Collective::allgatherv,
       .name = "ring",
       .summary = "P-1 rounds, two connections",
       .write = allgather_ring},
  };
  return kEntries;
}

}  // namespace tutti::collectives
