// Two binary trees over the same nodes, such that no node is an inner node of both. Each tree can
// then carry half of a Broadcast at full bandwidth ([Xu25] 1.2).
//
// The first tree is that of collectives/in_order_tree.hpp, whose inner nodes have even positions.
// The second tree has the same form, but each position p of the first tree becomes n + 1 - p if the
// number n of nodes is even, and p mod n + 1 if n is odd. The inner nodes of the second tree
// therefore have odd positions.
#pragma once

#include <cstdint>

#include "collectives/in_order_tree.hpp"

namespace tutti::trigger {

using TreeNode = collectives::InOrderNode;

/// Parent and children of `position` (1 to n) in tree 0 or tree 1 over n nodes.
TreeNode double_tree_node(std::uint32_t tree, std::uint32_t position, std::uint32_t n);
/// The position of the root of a tree over n nodes; 0 if n is 0.
std::uint32_t double_tree_root(std::uint32_t tree, std::uint32_t n);

}  // namespace tutti::trigger
