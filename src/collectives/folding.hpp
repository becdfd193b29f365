// Folding lets an algorithm for 2^n ranks run on any number of ranks. If there are 2^n + x ranks,
// the first 2x form x pairs: ranks 0 and 1, ranks 2 and 3, and so on. The even rank of a pair is
// called folded: it sends its data to the odd rank. The odd rank runs the algorithm for both and
// sends the result to the even rank, if that rank needs it. The 2^n ranks that are not folded are
// called actors; they run the algorithm and are numbered 0, 1, 2, ... in rank order. The ranks of a
// pair are consecutive, so a fold in the order of the actors is in rank order.
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
  /// The first round of the algorithm among the actors: 1 if there are pairs, because the folded
  /// ranks send their data in round 0; else 0.
  std::uint32_t first_round() const { return extra_ > 0 ? 1 : 0; }
  /// True if this rank belongs to a pair.
  bool paired() const { return me_ < 2 * extra_; }
  Rank pair_partner() const { return rank_of(me_ ^ 1u); }
  /// True if this rank is the even rank of a pair and therefore not an actor.
  bool folded() const { return paired() && me_ % 2 == 0; }
  /// The number of this rank among the actors. If this rank is folded, the number of the odd rank
  /// of its pair.
  std::uint32_t actor() const { return paired() ? me_ / 2 : me_ - extra_; }
  /// The rank of actor `number`.
  Rank rank(std::uint32_t number) const {
    return rank_of(number < extra_ ? 2 * number + 1 : number + extra_);
  }
  /// The first of the ranks for which actor `number` acts: the even rank of the actor's pair or,
  /// without a pair, the actor itself. If `number` is actors(), one past the last actor, returns
  /// the number of ranks.
  std::uint32_t first_rank(std::uint32_t number) const {
    return number < extra_ ? 2 * number : number + extra_;
  }

 private:
  std::uint32_t me_;
  std::uint32_t actors_;
  std::uint32_t extra_;
};

}  // namespace tutti::collectives
