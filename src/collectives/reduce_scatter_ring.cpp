// Ring Reduce-Scatter: P-1 rounds for P ranks, in which every rank sends and receives P-1 blocks.
// Block r starts at rank r+1 and travels around the ring to rank r, and each rank on the way folds
// in its contribution. The fold thus begins with rank r+1 and is not in rank order.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

void reduce_scatter_ring(Builder& b) {
  const std::uint32_t ranks = b.ranks();
  // In an in-place call the receive block is this rank's own block of the send buffer, so nothing
  // may overwrite it before the last fold.
  if (ranks == 1) {
    b.copy(b.send_block(b.me()), b.receive_block());
    return;
  }
  // Two partial results: one is folded while the other is sent.
  const schedule::BufferSlice partial[2] = {b.scratch(), b.scratch()};
  for (std::uint32_t step = 0; step + 1 < ranks; ++step) {
    const std::uint32_t out = index(b.around(-std::int64_t{step} - 1));
    const std::uint32_t in = index(b.around(-std::int64_t{step} - 2));
    b.round(step);
    b.send(b.around(1), step == 0 ? b.send_block(out) : partial[(step + 1) % 2]);
    b.recv(b.around(-1), partial[step % 2]);
    if (step + 2 < ranks) b.reduce(b.send_block(in), partial[step % 2]);
  }
  b.copy(b.send_block(b.me()), b.receive_block());
  b.reduce(partial[ranks % 2], b.receive_block(), schedule::Side::before);
}

}  // namespace

AlgorithmEntries reduce_scatter_ring_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::reduce_scatter,
       .name = "ring",
       .summary = "P-1 rounds, two connections",
       .write = reduce_scatter_ring},
  };
  return kEntries;
}

}  // namespace tutti::collectives
