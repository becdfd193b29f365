// Ring Reduce-Scatter: P-1 rounds. Block r starts at rank r+1 and is folded on its way around the
// ring to rank r. Every rank sends and receives P-1 blocks. The fold of a block begins after its
// owner, so it is not in rank order.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

void reduce_scatter_ring(Builder& b) {
  const std::uint32_t ranks = b.ranks();
  // In place the receive block is the rank's own block of the send buffer, so the last fold uses a
  // copy of it.
  if (ranks == 1) {
    b.copy(b.send_block(b.me()), b.receive_block());
    return;
  }
  // The partial result being folded and the one being sent.
  const schedule::Segment partial[2] = {b.scratch(), b.scratch()};
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

}  // namespace tutti::collectives
