// Double tree Broadcast: two binary trees over the ranks other than the root, each for half of the
// message. A rank with children in one tree has none in the other, so every rank sends about as
// much as it receives. In a single tree, half of the ranks would be leaves and send nothing.
//
// Both trees have n positions, one for each rank other than the root. Only even positions have
// children (in_order_tree.hpp). The rank with the number r, counted from the root, is at position r
// in tree A and at position r mod n + 1 in tree B. Thus only even numbers have children in tree A,
// and only odd ones in tree B.
#include "collectives/algorithms.hpp"
#include "collectives/arithmetic.hpp"
#include "collectives/in_order_tree.hpp"
#include "collectives/tree.hpp"

namespace tutti::collectives {

namespace {

/// The number of links from the root of the Broadcast to a position of the tree. The root has no
/// position; it is one level above the top of the tree.
std::uint32_t depth_of(std::uint32_t position, std::uint32_t count) {
  std::uint32_t depth = 1;
  while ((position = in_order_node(position, count).parent) != 0) ++depth;
  return depth;
}

/// This rank's node in tree A (`shift` 0) or tree B (`shift` 1). The rank with the number r > 0 is
/// at position (r - 1 + `shift`) mod n + 1 of the tree.
TreeNode node_in(const FromRoot& numbers, std::uint32_t shift) {
  const std::uint32_t count = numbers.ranks() - 1;
  const auto number_at = [&](std::uint32_t position) {
    return (position + count - 1 - shift) % count + 1;
  };
  TreeNode node;
  if (numbers.me() == 0) {
    node.children.push_back({numbers.rank(number_at(in_order_top(count))), 0});
    return node;
  }
  const std::uint32_t position = (numbers.me() - 1 + shift) % count + 1;
  const InOrderNode in_order = in_order_node(position, count);
  const std::uint32_t depth = depth_of(position, count);
  const std::uint32_t parent = in_order.parent == 0 ? 0 : number_at(in_order.parent);
  node.parent = {numbers.rank(parent), depth - 1};
  for (const std::uint32_t child : in_order.children) {
    if (child != 0) node.children.push_back({numbers.rank(number_at(child)), depth});
  }
  return node;
}

void broadcast_double_tree(Builder& b) {
  if (b.ranks() == 1) return;
  const FromRoot numbers(b);
  const TreeNode first = node_in(numbers, 0);
  const TreeNode second = node_in(numbers, 1);
  const std::uint32_t segments = b.purpose().parameters.segments;
  for (std::uint32_t s = 0; s < segments; ++s) {
    pass_down(b, first, b.receive_block().part(s, 2 * segments), s);
    pass_down(b, second, b.receive_block().part(segments + s, 2 * segments), s);
  }
}

}  // namespace

AlgorithmEntries broadcast_double_tree_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::broadcast,
       .name = "double_tree",
       .summary = "pipelined, two trees, each rank sends about what it receives",
       .heeds = kSegments,
       .write = broadcast_double_tree},
  };
  return kEntries;
}

}  // namespace tutti::collectives
