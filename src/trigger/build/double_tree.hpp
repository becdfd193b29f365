// Two binary trees over the same nodes in which every node is an inner one at most once, so that
// each can carry half of a broadcast at full bandwidth (T6).
//
// The first tree numbers its nodes 1 .. n in order: odd positions are leaves. The second is the
// mirror image where n is even, and shifted by one where n is odd; either way its inner nodes sit
// at odd positions.
#pragma once

#include <array>
#include <cstdint>

namespace tutti::trigger {

/// A node's neighbours in one tree, positions 1 .. n; 0: none.
struct TreeNode {
  std::uint32_t parent = 0;
  std::array<std::uint32_t, 2> children{};

  friend bool operator==(const TreeNode&, const TreeNode&) = default;
};

/// The neighbours of `position` (1 .. n) in tree 0 or 1 of the two trees over n nodes.
TreeNode double_tree_node(std::uint32_t tree, std::uint32_t position, std::uint32_t n);
/// The position of a tree's root; 0 where n is 0.
std::uint32_t double_tree_root(std::uint32_t tree, std::uint32_t n);

}  // namespace tutti::trigger
