// Two binary trees over the same nodes, such that no node is an inner node of both. Each tree can
// then carry half of a Broadcast at full bandwidth ([Xu25] 1.2).
//
// An in-order traversal of the first tree visits the positions 1 to n in sequence, so odd positions
// are leaves. The second tree has the same form with mirrored positions if n is even, or with
// positions shifted by one if n is odd, so its inner nodes have odd positions.
#pragma once

#include <array>
#include <cstdint>

namespace tutti::trigger {

/// The parent and the children of a node in one tree, as positions from 1 to n; 0 means none.
struct TreeNode {
  std::uint32_t parent = 0;
  std::array<std::uint32_t, 2> children{};

  friend bool operator==(const TreeNode&, const TreeNode&) = default;
};

/// Parent and children of `position` (1 to n) in tree 0 or tree 1 over n nodes.
TreeNode double_tree_node(std::uint32_t tree, std::uint32_t position, std::uint32_t n);
/// The position of the root of a tree over n nodes; 0 if n is 0.
std::uint32_t double_tree_root(std::uint32_t tree, std::uint32_t n);

}  // namespace tutti::trigger
