// Any number of ranks for algorithms of a power of two. With P = 2^n + x, the first 2x ranks pair
// up: the even one folds into the odd one, which acts for both, and hears the result at the end.
// Pairs are neighbours, so that a fold in the order of the actors is one in rank order.
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
  /// The round in which the actors begin: 1 where others fold into them first.
  std::uint32_t first_round() const { return extra_ > 0 ? 1 : 0; }
  /// Whether this rank has a partner of its pair, and which.
  bool paired() const { return me_ < 2 * extra_; }
  Rank pair_partner() const { return rank_of(me_ ^ 1u); }
  /// Whether this rank leaves the work to its partner.
  bool folded() const { return paired() && me_ % 2 == 0; }
  /// This rank's number among the actors.
  std::uint32_t actor() const { return paired() ? me_ / 2 : me_ - extra_; }
  /// The rank that is actor `number`.
  Rank rank(std::uint32_t number) const {
    return rank_of(number < extra_ ? 2 * number + 1 : number + extra_);
  }
  /// The first rank that actor `number` acts for; for number = actors(): the number of ranks.
  std::uint32_t first_rank(std::uint32_t number) const {
    return number < extra_ ? 2 * number : number + extra_;
  }

 private:
  std::uint32_t me_;
  std::uint32_t actors_;
  std::uint32_t extra_;
};

}  // namespace tutti::collectives
