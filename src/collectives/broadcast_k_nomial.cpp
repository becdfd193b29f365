// k-nomial Broadcast: ceil(log_k P) rounds for P ranks. Node numbers are written to the base k;
// setting the lowest nonzero digit of a number to 0 gives the number of the parent. With k = 2 this
// is the binomial tree.
#include <utility>

#include "collectives/algorithms.hpp"
#include "collectives/arithmetic.hpp"
#include "collectives/tree.hpp"

namespace tutti::collectives {

TreeNode k_nomial_node(const Builder& b, std::uint32_t radix) {
  const FromRoot numbers(b);
  const std::uint32_t me = numbers.me();
  TreeNode node;
  // The loop visits the digits below the lowest nonzero digit of this node's number; `width` is the
  // weight of a digit. The node sends first to the children at the highest of these digits, because
  // their subtrees are the deepest.
  std::uint32_t round = ceil_log(b.ranks(), radix);
  std::uint64_t width = 1;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> below;
  for (; width < b.ranks() && me / width % radix == 0; width *= radix)
    below.emplace_back(width, --round);
  if (me != 0) {
    const auto digit = static_cast<std::uint32_t>(me / width % radix * width);
    node.parent = {numbers.rank(me - digit), round - 1};
  }
  for (auto level = below.rbegin(); level != below.rend(); ++level) {
    const std::uint64_t step = level->first;
    for (std::uint64_t child = me + step; child < b.ranks() && child < me + step * radix;
         child += step)
      node.children.push_back({numbers.rank(static_cast<std::uint32_t>(child)), level->second});
  }
  return node;
}

namespace {

void broadcast_k_nomial(Builder& b) {
  pass_down_in_segments(b, k_nomial_node(b, b.purpose().parameters.radix));
}

}  // namespace

AlgorithmEntries broadcast_k_nomial_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::broadcast,
       .name = "k_nomial",
       .summary = "ceil(log_k P) rounds, k-1 sends in each",
       .heeds = kRadix | kSegments,
       .write = broadcast_k_nomial},
  };
  return kEntries;
}

}  // namespace tutti::collectives
