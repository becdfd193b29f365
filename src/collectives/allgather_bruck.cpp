// Bruck's Allgather, k-port ([Inozemtsev12] 4.1): ceil(log_{k+1} P) rounds for any P. In round j
// rank p sends all its blocks to the k ranks p - i (k+1)^j and appends those that it receives from
// p + i (k+1)^j. It then holds the blocks p, p+1, p+2 ..., which a final rotation by p puts in
// order.
#include <algorithm>

#include "collectives/algorithms.hpp"

namespace tutti::collectives {

void allgather_bruck(Builder& b) {
  const std::uint32_t ranks = b.ranks();
  const std::uint32_t ports = b.purpose().parameters.ports;
  const schedule::BufferSlice gathered = b.scratch(ranks);
  const auto held = [&](std::uint32_t first, std::uint32_t count) {
    return blocks_of(schedule::Buffer::scratch, gathered.first_block + first, count);
  };

  b.copy(b.send_block(), held(0, 1));
  std::uint32_t round = 0;
  for (std::uint64_t have = 1; have < ranks; have *= ports + 1) {
    b.round(round++);
    for (std::uint64_t distance = have; distance < ranks && distance <= have * ports;
         distance += have) {
      const auto count = static_cast<std::uint32_t>(std::min(have, ranks - distance));
      const auto ahead = static_cast<std::int64_t>(distance);
      b.send(b.around(-ahead), have == 1 ? b.send_block() : held(0, count));
      b.recv(b.around(ahead), held(static_cast<std::uint32_t>(distance), count));
    }
  }

  b.round(round);
  const std::uint32_t after_me = ranks - b.me();
  b.copy(held(0, after_me), b.receive_blocks(b.me(), after_me));
  if (b.me() > 0) b.copy(held(after_me, b.me()), b.receive_blocks(0, b.me()));
}

}  // namespace tutti::collectives
