// Rabenseifner's Allreduce: a Reduce-Scatter by vector halving and distance doubling, then an
// Allgather along the reverse path. It takes 2 log2 P rounds for P ranks and sends no more bytes
// than the ring algorithm. A partial result is always the fold of consecutive ranks, because the
// distances double, so the result is folded in rank order. Folding (folding.hpp) extends the
// algorithm to any P.
#include "collectives/algorithms.hpp"
#include "collectives/folding.hpp"

namespace tutti::collectives {

namespace {

void allreduce_rabenseifner(Builder& b) {
  using schedule::BufferSlice;
  using schedule::Side;
  const Folding folding(b.me(), b.ranks());
  if (folding.folded()) {
    b.send(folding.pair_partner(), b.send_block());
    b.recv(folding.pair_partner(), b.receive_block());
    return;
  }
  const BufferSlice incoming = b.scratch();
  b.copy(b.send_block(), b.receive_block());
  if (folding.paired()) {
    b.recv(folding.pair_partner(), incoming);
    b.reduce(incoming, b.receive_block(), Side::before);
  }

  // Reduce-Scatter: the block is divided into `pieces` parts. In the next round this rank works
  // only on the part with the index `mine`.
  std::uint32_t mine = 0;
  std::uint32_t pieces = 1;
  std::uint32_t round = folding.first_round();
  for (std::uint32_t width = 1; width < folding.actors(); width *= 2) {
    const std::uint32_t partner = folding.actor() ^ width;
    const bool lower = folding.actor() < partner;
    pieces *= 2;
    const std::uint32_t given = 2 * mine + (lower ? 1 : 0);
    mine = 2 * mine + (lower ? 0 : 1);
    b.round(round++);
    b.send(folding.rank(partner), b.receive_block().part(given, pieces));
    b.recv(folding.rank(partner), incoming.part(mine, pieces));
    b.reduce(incoming.part(mine, pieces), b.receive_block().part(mine, pieces),
             lower ? Side::after : Side::before);
  }
  // Allgather: in each round a rank and its partner exchange their parts, which together are one
  // part of twice the size.
  for (std::uint32_t width = folding.actors() / 2; width > 0; width /= 2) {
    const Rank partner = folding.rank(folding.actor() ^ width);
    b.round(round++);
    b.send(partner, b.receive_block().part(mine, pieces));
    b.recv(partner, b.receive_block().part(mine ^ 1u, pieces));
    mine /= 2;
    pieces /= 2;
  }
  if (folding.paired()) b.round(round).send(folding.pair_partner(), b.receive_block());
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
