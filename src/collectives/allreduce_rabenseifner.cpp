// Rabenseifner's Allreduce: Reduce-Scatter by vector halving and distance doubling, then an
// Allgather along the reverse path. It takes 2 log2 P rounds and no more bytes than the ring
// algorithm; because distances double, a rank has always folded a run of ranks, so the result is in
// rank order. Folding (folding.hpp) extends it to any P.
#include "collectives/algorithms.hpp"
#include "collectives/folding.hpp"

namespace tutti::collectives {

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

  // Reduce-Scatter: `mine` of `pieces` is the part of the block that this rank still reduces.
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
  // Allgather: in each step partners exchange the halves of a piece that is twice as large.
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

}  // namespace tutti::collectives
