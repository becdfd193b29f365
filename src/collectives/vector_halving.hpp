// Reduce-Scatter of one block by vector halving and distance doubling: in each round a rank and its
// partner exchange halves of the part that both still reduce. A partial result is always the fold
// of consecutive ranks, because the distances double, so the result is folded in rank order.
#pragma once

#include <cstdint>

#include "collectives/folding.hpp"
#include "schedule/builder.hpp"

namespace tutti::collectives {

/// The part with index `at` of a block that is divided into `pieces` equal parts.
struct BlockPart {
  std::uint32_t at = 0;
  std::uint32_t pieces = 1;

  schedule::BufferSlice of(const schedule::BufferSlice& block) const {
    return block.part(at, pieces);
  }
  BlockPart lower_half() const { return {2 * at, 2 * pieces}; }
  BlockPart upper_half() const { return {2 * at + 1, 2 * pieces}; }
  /// The part whose two halves are this part and its neighbour.
  BlockPart whole() const { return {at / 2, pieces / 2}; }
  /// The part that forms `whole()` together with this part.
  BlockPart neighbour() const { return {at ^ 1u, pieces}; }
};

/// The part of the result that an actor (folding.hpp) has after the last round, and the number of
/// the next round.
struct Halved {
  BlockPart mine;
  std::uint32_t round = 0;
};

/// Writes the tasks of an actor, a rank that takes part in the exchange (folding.hpp). When these
/// tasks have run, the actor's part of `sum` contains the fold of all ranks. `incoming` is a
/// scratch block for received data.
inline Halved write_vector_halving(schedule::Builder& b, const Folding& folding,
                                   const schedule::BufferSlice& sum,
                                   const schedule::BufferSlice& incoming) {
  using schedule::Side;
  b.copy(b.send_block(), sum);
  if (folding.paired()) {
    b.recv(folding.pair_partner(), incoming);
    b.reduce(incoming, sum, Side::before);
  }
  Halved halved{.mine = {}, .round = folding.first_round()};
  for (std::uint32_t width = 1; width < folding.actors(); width *= 2) {
    const std::uint32_t partner = folding.actor() ^ width;
    const bool lower = folding.actor() < partner;
    const BlockPart before = halved.mine;
    const BlockPart given = lower ? before.upper_half() : before.lower_half();
    halved.mine = given.neighbour();
    b.round(halved.round++);
    b.send(folding.rank(partner), given.of(sum));
    b.recv(folding.rank(partner), halved.mine.of(incoming));
    b.reduce(halved.mine.of(incoming), halved.mine.of(sum), lower ? Side::after : Side::before);
  }
  return halved;
}

}  // namespace tutti::collectives
