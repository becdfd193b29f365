// Neighbour exchange Allgather: P/2 rounds for even P, with the right and the left neighbour in
// turn. First each pair (2m, 2m+1) exchanges its blocks; in each later round a rank passes on the
// two blocks that it received last. It has half of the rounds of the ring algorithm over the same
// two connections.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

void allgather_neighbour_exchange(Builder& b) {
  const std::uint32_t me = b.me();
  const std::uint32_t pairs = b.ranks() / 2;
  const bool even = me % 2 == 0;
  const auto pair_blocks = [&](std::uint32_t pair) { return b.receive_blocks(2 * pair, 2); };
  b.copy(b.send_block(), b.receive_block(me));
  if (b.ranks() == 1) return;
  const std::uint32_t twin = me ^ 1u;
  b.send(rank_of(twin), b.send_block());
  b.recv(rank_of(twin), b.receive_block(twin));

  std::uint32_t held = me / 2;
  for (std::uint32_t round = 1; round < pairs; ++round) {
    // In odd rounds even ranks exchange with their left neighbour and odd ranks with their right
    // one. The received pairs of blocks belong to ever more distant ranks of that side.
    const bool left = even == (round % 2 == 1);
    const std::uint32_t away = (round + 1) / 2;
    const std::uint32_t next = (me / 2 + (left ? pairs - away : away)) % pairs;
    const Rank neighbour = b.around(left ? -1 : 1);
    b.round(round);
    b.send(neighbour, pair_blocks(held));
    b.recv(neighbour, pair_blocks(next));
    held = next;
  }
}

}  // namespace tutti::collectives
