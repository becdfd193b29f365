// Binary tree Broadcast: rank r, counted from the root, has the children 2r+1 and 2r+2. No rank
// sends a segment more than twice, unlike in the binomial tree, so segments can be pipelined.
#include <bit>

#include "collectives/algorithms.hpp"
#include "collectives/arithmetic.hpp"
#include "collectives/tree.hpp"

namespace tutti::collectives {

namespace {

void broadcast_binary_tree(Builder& b) {
  const FromRoot numbers(b);
  const auto depth = static_cast<std::uint32_t>(std::bit_width(numbers.me() + 1)) - 1;
  TreeNode node;
  if (numbers.me() > 0) node.parent = {numbers.rank((numbers.me() - 1) / 2), depth - 1};
  for (std::uint32_t child : {2 * numbers.me() + 1, 2 * numbers.me() + 2}) {
    if (child < b.ranks()) node.children.push_back({numbers.rank(child), depth});
  }
  pass_down_in_segments(b, node);
}

}  // namespace

AlgorithmEntries broadcast_binary_tree_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::broadcast,
       .name = "binary_tree",
       .summary = "pipelined, two sends per rank and segment",
       .heeds = kSegments,
       .write = broadcast_binary_tree},
  };
  return kEntries;
}

}  // namespace tutti::collectives
