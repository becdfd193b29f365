// Recursive doubling barrier: log2 P rounds for P ranks, in which partners signal each other.
// Folding (folding.hpp) extends the algorithm to any P.
#include "collectives/algorithms.hpp"
#include "collectives/folding.hpp"

namespace tutti::collectives {

namespace {

void barrier_recursive_doubling(Builder& b) {
  const Folding folding(b.me(), b.ranks());
  if (folding.folded()) {
    b.signal(folding.pair_partner());
    b.recv_signal(folding.pair_partner());
    return;
  }
  std::vector<schedule::TaskRef> heard;
  if (folding.paired()) heard.push_back(b.recv_signal(folding.pair_partner()));
  std::uint32_t round = folding.first_round();
  for (std::uint32_t width = 1; width < folding.actors(); width *= 2) {
    const Rank partner = folding.rank(folding.actor() ^ width);
    b.round(round++);
    for (schedule::TaskRef earlier : heard) b.after(earlier);
    b.signal(partner);
    heard.push_back(b.recv_signal(partner));
  }
  if (!folding.paired()) return;
  for (schedule::TaskRef earlier : heard) b.after(earlier);
  b.round(round).signal(folding.pair_partner());
}

}  // namespace

AlgorithmEntries barrier_recursive_doubling_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::barrier,
       .name = "recursive_doubling",
       .summary = "log2 P rounds between exchange partners, two more if P is not a power of two",
       .write = barrier_recursive_doubling},
  };
  return kEntries;
}

}  // namespace tutti::collectives
