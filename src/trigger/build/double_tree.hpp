// Two binary trees over the same nodes in which no node is an inner node twice, so that each tree
// can carry half of a Broadcast at full bandwidth ([Xu25] 1.2).
//
// The first tree numbers its nodes 1 to n in order, so odd positions are leaves. The second is its
// mirror image for even n and shifted by one for odd n, so its inner nodes are at odd positions.
#pragma once

#include <array>
#include <cstdint>

namespace tutti::trigger {

/// The neighbours of a node in one tree, as positions 1 to n; 0 means none.
struct TreeNode {
  std::uint32_t parent = 0;
  std::array<std::uint32_t, 2> children{};

  friend bool operator==(const TreeNode&, const TreeNode&) = default;
};

/// The neighbours of `position` (1 .. n) in tree 0 or 1 of the two trees over n nodes.
TreeNode double_tree_node(std::uint32_t tree, std::uint32_t position, std::uint32_t n);
/// The position of a tree's root; 0 if n is 0.
std::uint32_t double_tree_root(std::uint32_t tree, std::uint32_t n);

}  // namespace tutti::trigger
