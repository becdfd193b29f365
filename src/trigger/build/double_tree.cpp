#include "trigger/build/double_tree.hpp"

#include <bit>

namespace tutti::trigger {
namespace {

// Positions follow an in-order traversal of the tree, so the lowest set bit of a position shows its
// height. The parent is the nearest position one level higher; if that position exceeds n, the
// parent is the next lower position of greater height.
std::uint32_t parent_in_order(std::uint32_t position, std::uint32_t n) {
  if (position == std::bit_floor(n)) return 0;
  const std::uint32_t height = position & (~position + 1);
  const std::uint32_t above = (position & ~height) | height << 1;
  return above <= n ? above : position & ~height;
}

TreeNode node_in_order(std::uint32_t position, std::uint32_t n) {
  TreeNode node;
  node.parent = parent_in_order(position, n);
  std::uint32_t distance = (position & (~position + 1)) >> 1;
  if (distance == 0) return node;
  node.children[0] = position - distance;
  while (distance != 0 && position + distance > n) distance >>= 1;
  if (distance != 0) node.children[1] = position + distance;
  return node;
}

/// Maps a position of the first tree to its counterpart in the second tree; original() is the
/// inverse.
std::uint32_t renamed(std::uint32_t position, std::uint32_t n) {
  if (position == 0) return 0;
  return n % 2 == 0 ? n + 1 - position : position % n + 1;
}

std::uint32_t original(std::uint32_t position, std::uint32_t n) {
  if (position == 0) return 0;
  return n % 2 == 0 ? n + 1 - position : (position + n - 2) % n + 1;
}

}  // namespace

TreeNode double_tree_node(std::uint32_t tree, std::uint32_t position, std::uint32_t n) {
  if (tree == 0) return node_in_order(position, n);
  TreeNode node = node_in_order(original(position, n), n);
  node.parent = renamed(node.parent, n);
  for (std::uint32_t& child : node.children) child = renamed(child, n);
  return node;
}

std::uint32_t double_tree_root(std::uint32_t tree, std::uint32_t n) {
  if (n == 0) return 0;
  const std::uint32_t root = std::bit_floor(n);
  return tree == 0 ? root : renamed(root, n);
}

}  // namespace tutti::trigger
