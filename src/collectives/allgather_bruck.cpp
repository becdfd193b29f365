// Bruck's Allgather with k ports ([Inozemtsev12] 4.1): ceil(log_{k+1} P) rounds for any number P of
// ranks. In round j rank p sends all blocks that it has to the ranks p - i (k+1)^j, for i from 1 to
// k, and appends the blocks that it receives from the ranks p + i (k+1)^j. In the end it has the
// blocks p, p+1, p+2 and so on, and rotates them into rank order.
#include <algorithm>

#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

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

}  // namespace

AlgorithmEntries allgather_bruck_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::allgather,
       .name = "bruck",
       .summary = "ceil(log_{k+1} P) rounds, rotated at the end: short messages, any P",
       .heeds = kPorts,
       .write = allgather_bruck},
  };
  return kEntries;
}

}  // namespace tutti::collectives
