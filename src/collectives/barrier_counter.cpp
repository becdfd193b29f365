// Counter Barrier: each rank adds 1 to a counter of rank 0 by an atomic ([OFED-AT]), and rank 0
// signals all ranks once every rank has added. For P ranks this takes 2 (P-1) messages in two
// rounds. The device of rank 0 executes the additions without its host.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

void barrier_counter(Builder& b) {
  const Rank counting = rank_of(0);
  if (b.me() != index(counting)) {
    b.round(1).recv_signal(counting);
    b.round(0).count(counting);
    return;
  }
  std::vector<Rank> others;
  for (std::uint32_t rank = 1; rank < b.ranks(); ++rank) others.push_back(rank_of(rank));
  if (others.empty()) return;
  const schedule::TaskRef all = b.wait_counted(others);
  for (const Rank other : others) b.round(1).after(all).signal(other);
}

}  // namespace

AlgorithmEntries barrier_counter_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::barrier,
       .name = "counter",
       .summary = "2 (P-1) messages: additions to a counter of rank 0 by atomics, then signals",
       .write = barrier_counter},
  };
  return kEntries;
}

}  // namespace tutti::collectives
