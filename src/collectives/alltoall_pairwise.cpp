// Pairwise Alltoall for long messages: P-1 rounds for P ranks. In each round a rank sends to one
// rank and receives from one rank. It begins the next round once both transfers are complete, so a
// receiver has one sender at a time if all ranks are equally fast.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

void alltoall_pairwise(Builder& b) {
  b.copy(b.send_block(b.me()), b.receive_block(b.me()));
  schedule::TaskRef sent;
  schedule::TaskRef received;
  for (std::uint32_t distance = 1; distance < b.ranks(); ++distance) {
    const Rank to = b.around(distance);
    const Rank from = b.around(-std::int64_t{distance});
    b.round(distance - 1);
    // Only the sends of a round wait for the previous round; the receives of all rounds are posted
    // at once.
    b.after({sent, received});
    sent = b.send(to, b.send_block(index(to)));
    received = b.recv(from, b.receive_block(index(from)));
  }
}

}  // namespace

AlgorithmEntries alltoall_pairwise_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::alltoall,
       .name = "pairwise",
       .summary = "P-1 rounds, one sender per receiver",
       .write = alltoall_pairwise},
      {.collective = Collective::alltoallv,
       .name = "pairwise",
       .summary = "P-1 rounds, one sender per receiver, blocks of any sizes",
       .write = alltoall_pairwise},
  };
  return kEntries;
}

}  // namespace tutti::collectives
