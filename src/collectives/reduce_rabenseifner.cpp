// Rabenseifner's Reduce ([Xu25] 1.2): a Reduce-Scatter by vector halving, then a binomial Gather of
// the parts to the root along the reverse path. If the number P of ranks is a power of two, no rank
// sends or receives more than two blocks; the root of a binomial tree would receive log2 P blocks.
// Folding (folding.hpp) extends the algorithm to any P.
#include "collectives/algorithms.hpp"
#include "collectives/vector_halving.hpp"

namespace tutti::collectives {

namespace {

void reduce_rabenseifner(Builder& b) {
  const Folding folding(b.me(), b.ranks());
  const std::uint32_t root = index(b.purpose().root);
  if (folding.folded()) {
    b.send(folding.pair_partner(), b.send_block());
    if (b.is_root()) b.recv(folding.pair_partner(), b.receive_block());
    return;
  }
  const schedule::BufferSlice sum = b.is_root() ? b.receive_block() : b.scratch();
  auto [mine, round] = write_vector_halving(b, folding, sum, b.scratch());
  // Gather: in each round, the actors (folding.hpp) that still have parts form pairs. One actor of
  // a pair sends its part to the other one and is then finished.
  const std::uint32_t distance = folding.actor() ^ Folding(root, b.ranks()).actor();
  for (std::uint32_t width = folding.actors() / 2; width > 0; width /= 2) {
    const Rank partner = folding.rank(folding.actor() ^ width);
    b.round(round++);
    if ((distance & width) != 0) {
      b.send(partner, mine.of(sum));
      return;
    }
    b.recv(partner, mine.neighbour().of(sum));
    mine = mine.whole();
  }
  if (!b.is_root()) b.round(round).send(rank_of(root), sum);
}

}  // namespace

AlgorithmEntries reduce_rabenseifner_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::reduce,
       .name = "rabenseifner",
       .summary = "2 log2 P rounds, at most two blocks sent by a rank, in rank order",
       .write = reduce_rabenseifner},
  };
  return kEntries;
}

}  // namespace tutti::collectives
