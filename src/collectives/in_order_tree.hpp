// A binary tree over the positions 1 to n, numbered in order: each position comes after all
// positions of its left subtree and before those of its right subtree. The lowest set bit of a
// position is its height, so odd positions are leaves.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace tutti::collectives {

/// Parent and children of a position; 0: none.
struct InOrderNode {
  std::uint32_t parent = 0;
  std::array<std::uint32_t, 2> children{};
};

/// The position at the top of the tree; 0 if n is 0.
constexpr std::uint32_t in_order_top(std::uint32_t n) { return std::bit_floor(n); }

/// Parent and children of `position`, which is 1 to n.
constexpr InOrderNode in_order_node(std::uint32_t position, std::uint32_t n) {
  InOrderNode node;
  const std::uint32_t height = position & (~position + 1);
  if (position != in_order_top(n)) {
    const std::uint32_t above = (position & ~height) | height << 1;
    node.parent = above <= n ? above : position & ~height;
  }
  if (height > 1) node.children[0] = position - height / 2;
  // In a full tree the right child is `position` + `height` / 2. If that position exceeds n, the
  // loop descends from there to left children: the first position that is at most n, if any, is
  // the right child.
  std::uint32_t distance = height / 2;
  while (distance > 0 && position + distance > n) distance /= 2;
  if (distance > 0) node.children[1] = position + distance;
  return node;
}

}  // namespace tutti::collectives
