// Linear Reduce-Scatter over keyed messages ([Xu25] 1.2): in one round every rank sends to each
// other rank that rank's block. A rank folds the contributions to its block in rank order, not in
// the order of their arrival. Blocks may differ in size, because no block passes through a third
// rank.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

void reduce_scatter_linear_keyed(Builder& b) {
  for (std::uint32_t distance = 1; distance < b.ranks(); ++distance) {
    const Rank to = b.around(distance);
    b.send_keyed(to, b.send_block(index(to)));
  }
  // This rank starts with its own contribution, which is in the receive block already if the call
  // is in place. It then folds in the contributions of lower ranks from the left in descending
  // order, and those of higher ranks from the right in ascending order, so the fold is in rank
  // order.
  std::vector<Rank> lower;
  std::vector<Rank> upper;
  for (std::uint32_t r = b.me(); r-- > 0;) lower.push_back(rank_of(r));
  for (std::uint32_t r = b.me() + 1; r < b.ranks(); ++r) upper.push_back(rank_of(r));
  b.copy(b.send_block(b.me()), b.receive_block());
  if (!lower.empty()) b.wait_keys(lower, b.receive_block(), schedule::Side::before);
  if (!upper.empty()) b.wait_keys(upper, b.receive_block(), schedule::Side::after);
}

}  // namespace

AlgorithmEntries reduce_scatter_linear_keyed_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::reduce_scatter,
       .name = "linear_keyed",
       .summary = "one round, in rank order by keyed messages: few ranks",
       .write = reduce_scatter_linear_keyed},
      {.collective = Collective::reduce_scatterv,
       .name = "linear_keyed",
       .summary = "one round, in rank order by keyed messages, blocks of any sizes",
       .write = reduce_scatter_linear_keyed},
  };
  return kEntries;
}

}  // namespace tutti::collectives
