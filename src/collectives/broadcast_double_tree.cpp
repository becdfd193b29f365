// Double tree Broadcast: two binary trees over the ranks other than the root, each for half of the
// message. A rank with children in one tree has none in the other, so every rank sends about as
// much as it receives. In a single tree, half of the ranks would be leaves and send nothing.
//
// The nodes of tree A are the numbers 1 to n. A number v whose lowest set bit is l has the children
// v - l/2 and v + l/2, so only even numbers have children. Tree B is the same tree with all numbers
// shifted by one, so that only odd numbers have children.
#include <bit>

#include "collectives/algorithms.hpp"
#include "collectives/arithmetic.hpp"
#include "collectives/tree.hpp"

namespace tutti::collectives {

namespace {

/// The parent and the children of a position in the in-order tree over the positions 1 to count. At
/// the top of the tree the parent is 0.
struct InOrder {
  std::uint32_t parent = 0;
  std::uint32_t depth = 0;  ///< number of links from the root of the Broadcast
  std::vector<std::uint32_t> children;
};

std::uint32_t lowest_bit(std::uint32_t value) { return value & (~value + 1); }

/// The parent of position `at`: the nearest of its ancestors in the complete tree that is at most
/// `count`.
std::uint32_t in_order_parent(std::uint32_t at, std::uint32_t count) {
  do {
    const std::uint32_t bit = lowest_bit(at);
    at = (at ^ bit) | (bit << 1);
  } while (at > count);
  return at;
}

InOrder in_order_links(std::uint32_t at, std::uint32_t count) {
  const std::uint32_t top = std::bit_floor(count);
  InOrder links;
  const std::uint32_t low = lowest_bit(at);
  if (low > 1) links.children.push_back(at - low / 2);
  // If the right child lies beyond `count`, its place is taken by the first position down its left
  // branch that is at most `count`.
  for (std::uint32_t step = low / 2; step > 0; step /= 2) {
    if (at + step > count) continue;
    links.children.push_back(at + step);
    break;
  }
  if (at != top) links.parent = in_order_parent(at, count);
  // The root of the Broadcast is not part of the tree; it is one level above the tree's top.
  links.depth = 1;
  for (std::uint32_t up = at; up != top; up = in_order_parent(up, count)) ++links.depth;
  return links;
}

/// This rank's node in one of the two trees. A rank's position in the tree is its number, counted
/// from the root, shifted cyclically by `shift`.
TreeNode node_in(const FromRoot& numbers, std::uint32_t shift) {
  const std::uint32_t count = numbers.ranks() - 1;
  const auto number_at = [&](std::uint32_t position) {
    return (position + count - 1 - shift) % count + 1;
  };
  TreeNode node;
  if (numbers.me() == 0) {
    node.children.push_back({numbers.rank(number_at(std::bit_floor(count))), 0});
    return node;
  }
  const std::uint32_t position = (numbers.me() - 1 + shift) % count + 1;
  const InOrder links = in_order_links(position, count);
  const std::uint32_t parent = links.parent == 0 ? 0 : number_at(links.parent);
  node.parent = {numbers.rank(parent), links.depth - 1};
  for (std::uint32_t child : links.children)
    node.children.push_back({numbers.rank(number_at(child)), links.depth});
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
