// Linear Reduce over keyed messages ([Xu25] 1.2): every contribution waits at the root under its
// key, and the root folds the contributions in rank order, not in the order of their arrival. The
// bits are reproducible, and the operator need not commute.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

void reduce_linear_keyed(Builder& b) {
  if (!b.is_root()) {
    b.send_keyed(b.purpose().root, b.send_block());
    return;
  }
  // The root starts with its own contribution, which is in the receive buffer already if the call
  // is in place. It then folds in the contributions of lower ranks from the left in descending
  // order, and those of higher ranks from the right in ascending order, so the fold is in rank
  // order.
  std::vector<Rank> lower;
  std::vector<Rank> upper;
  for (std::uint32_t r = b.me(); r-- > 0;) lower.push_back(rank_of(r));
  for (std::uint32_t r = b.me() + 1; r < b.ranks(); ++r) upper.push_back(rank_of(r));
  b.copy(b.send_block(), b.receive_block());
  if (!lower.empty()) b.wait_keys(lower, b.receive_block(), schedule::Side::before);
  if (!upper.empty()) b.wait_keys(upper, b.receive_block(), schedule::Side::after);
}

}  // namespace

AlgorithmEntries reduce_linear_keyed_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::reduce,
       .name = "linear_keyed",
       .summary = "one round, in rank order by keyed messages: few ranks",
       .write = reduce_linear_keyed},
  };
  return kEntries;
}

}  // namespace tutti::collectives
