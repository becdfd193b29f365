// Folding lets an algorithm for 2^n ranks run on any number of ranks. Of 2^n + x ranks, the first
// 2x form pairs of neighbours: the even rank sends its data to the odd one, which takes part for
// both and sends the result back. The ranks that take part are the actors. The ranks of a pair are
// consecutive, so a fold in the order of the actors is in rank order.
#pragma once

#include <bit>
#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::collectives {

class Folding {
 public:
  Folding(std::uint32_t me, std::uint32_t ranks)
      : me_(me), actors_(std::bit_floor(ranks)), extra_(ranks - actors_) {}

  std::uint32_t actors() const { return actors_; }
  /// The first round in which actors exchange: 1 if other ranks first send their data to actors,
  /// else 0.
  std::uint32_t first_round() const { return extra_ > 0 ? 1 : 0; }
  /// True if this rank belongs to a pair, of which only one rank is an actor.
  bool paired() const { return me_ < 2 * extra_; }
  Rank pair_partner() const { return rank_of(me_ ^ 1u); }
  /// True if this rank is not an actor, because its partner takes part for it.
  bool folded() const { return paired() && me_ % 2 == 0; }
  /// The index of this rank among the actors; if this rank is folded, the index of its partner.
  std::uint32_t actor() const { return paired() ? me_ / 2 : me_ - extra_; }
  /// The rank that is actor `number`.
  Rank rank(std::uint32_t number) const {
    return rank_of(number < extra_ ? 2 * number + 1 : number + extra_);
  }
  /// The lower rank of the pair that actor `number` belongs to; if the actor belongs to no pair,
  /// its own rank. If `number` is actors(), one past the last actor, returns the number of ranks.
  std::uint32_t first_rank(std::uint32_t number) const {
    return number < extra_ ? 2 * number : number + extra_;
  }

 private:
  std::uint32_t me_;
  std::uint32_t actors_;
  std::uint32_t extra_;
};

}  // namespace tutti::collectives
