// Rabenseifner's Allreduce: a Reduce-Scatter by vector halving, then an Allgather along the reverse
// path. If the number P of ranks is a power of two, it takes 2 log2 P rounds and sends no more
// bytes than the ring algorithm. Folding (folding.hpp) extends the algorithm to any P.
#include "collectives/algorithms.hpp"
#include "collectives/vector_halving.hpp"

namespace tutti::collectives {

namespace {

void allreduce_rabenseifner(Builder& b) {
  const Folding folding(b.me(), b.ranks());
  if (folding.folded()) {
    b.send(folding.pair_partner(), b.send_block());
    b.recv(folding.pair_partner(), b.receive_block());
    return;
  }
  const schedule::BufferSlice result = b.receive_block();
  auto [mine, round] = write_vector_halving(b, folding, result, b.scratch());
  // Allgather: in each round a rank and its partner exchange their parts, which together are one
  // part of twice the size.
  for (std::uint32_t width = folding.actors() / 2; width > 0; width /= 2) {
    const Rank partner = folding.rank(folding.actor() ^ width);
    b.round(round++);
    b.send(partner, mine.of(result));
    b.recv(partner, mine.neighbour().of(result));
    mine = mine.whole();
  }
  if (folding.paired()) b.round(round).send(folding.pair_partner(), result);
}

}  // namespace

AlgorithmEntries allreduce_rabenseifner_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::allreduce,
       .name = "rabenseifner",
       .summary = "2 log2 P rounds, fewest bytes, in rank order",
       .write = allreduce_rabenseifner},
  };
  return kEntries;
}

}  // namespace tutti::collectives
