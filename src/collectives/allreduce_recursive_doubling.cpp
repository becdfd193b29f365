// Recursive doubling Allreduce for short messages: in each of log2 P rounds for P ranks, partners
// exchange the whole block. The partial result of the lower partner is the left operand, so the
// fold is in rank order and every rank computes the same bits. Folding (folding.hpp) extends the
// algorithm to any P.
#include "collectives/algorithms.hpp"
#include "collectives/folding.hpp"

namespace tutti::collectives {

namespace {

void allreduce_recursive_doubling(Builder& b) {
  using schedule::Side;
  const Folding folding(b.me(), b.ranks());
  if (folding.folded()) {
    b.send(folding.pair_partner(), b.send_block());
    b.recv(folding.pair_partner(), b.receive_block());
    return;
  }
  const auto fold_in = [&](Rank from, Side side) {
    const schedule::BufferSlice theirs = b.scratch();
    b.recv(from, theirs);
    b.reduce(theirs, b.receive_block(), side);
  };
  b.copy(b.send_block(), b.receive_block());
  if (folding.paired()) fold_in(folding.pair_partner(), Side::before);
  std::uint32_t round = folding.first_round();
  for (std::uint32_t width = 1; width < folding.actors(); width *= 2) {
    const std::uint32_t partner = folding.actor() ^ width;
    b.round(round++);
    b.send(folding.rank(partner), b.receive_block());
    fold_in(folding.rank(partner), partner < folding.actor() ? Side::before : Side::after);
  }
  if (folding.paired()) b.round(round).send(folding.pair_partner(), b.receive_block());
}

}  // namespace

AlgorithmEntries allreduce_recursive_doubling_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::allreduce,
       .name = "recursive_doubling",
       .summary = "log2 P rounds of the whole block, in rank order: short messages",
       .write = allreduce_recursive_doubling},
  };
  return kEntries;
}

}  // namespace tutti::collectives
