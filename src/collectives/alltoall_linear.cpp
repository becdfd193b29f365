// Linear Alltoall: a rank posts the sends of all its blocks at once, beginning with the block for
// its right neighbour.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

void alltoall_linear(Builder& b) {
  b.copy(b.send_block(b.me()), b.receive_block(b.me()));
  for (std::uint32_t distance = 1; distance < b.ranks(); ++distance) {
    const Rank to = b.around(distance);
    const Rank from = b.around(-std::int64_t{distance});
    b.send(to, b.send_block(index(to)));
    b.recv(from, b.receive_block(index(from)));
  }
}

}  // namespace

AlgorithmEntries alltoall_linear_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::alltoall,
       .name = "linear",
       .summary = "one round, all at once",
       .write = alltoall_linear},
      {.collective = Collective::alltoallv,
       .name = "linear",
       .summary = "one round, all at once, blocks of any sizes",
       .write = alltoall_linear},
  };
  return kEntries;
}

}  // namespace tutti::collectives
