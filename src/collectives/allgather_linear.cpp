// Linear Allgather: every rank sends its block to every other rank at once, in one round over P-1
// connections for P ranks. It suits few ranks and is the baseline of the other algorithms. Blocks
// may have different sizes.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

void allgather_linear(Builder& b) {
  b.copy(b.send_block(), b.receive_block(b.me()));
  for (std::uint32_t distance = 1; distance < b.ranks(); ++distance) {
    const Rank from = b.around(-std::int64_t{distance});
    b.send(b.around(distance), b.send_block());
    b.recv(from, b.receive_block(index(from)));
  }
}

}  // namespace

AlgorithmEntries allgather_linear_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::allgather,
       .name = "linear",
       .summary = "one round, P-1 connections: few ranks; with slot exchange short blocks are "
                  "written once",
       .write = allgather_linear},
      {.collective = Collective::allgatherv,
       .name = "linear",
       .summary = "one round, P-1 connections",
       .write = allgather_linear},
  };
  return kEntries;
}

}  // namespace tutti::collectives
