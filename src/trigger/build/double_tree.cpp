#include "trigger/build/double_tree.hpp"

namespace tutti::trigger {
namespace {

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
  if (tree == 0) return collectives::in_order_node(position, n);
  TreeNode node = collectives::in_order_node(original(position, n), n);
  node.parent = renamed(node.parent, n);
  for (std::uint32_t& child : node.children) child = renamed(child, n);
  return node;
}

std::uint32_t double_tree_root(std::uint32_t tree, std::uint32_t n) {
  const std::uint32_t top = collectives::in_order_top(n);
  return tree == 0 ? top : renamed(top, n);
}

}  // namespace tutti::trigger
