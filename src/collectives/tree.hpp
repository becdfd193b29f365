// A node of a Broadcast tree: it receives each piece from its parent and sends it to its children.
// Broadcast trees differ only in these links.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/builder.hpp"

namespace tutti::collectives {

struct TreeNode {
  /// A neighbour in the tree, and the round in which a message of one piece passes to or from it.
  struct Link {
    Rank rank = kNoRank;
    std::uint32_t round = 0;
  };
  Link parent;  ///< parent in the tree; no rank at the root
  std::vector<Link> children;
};

/// Writes the tasks that pass one piece through the node; `delay` is the number of rounds after the
/// first piece.
void pass_down(schedule::Builder& b, const TreeNode& node, const schedule::BufferSlice& piece,
               std::uint32_t delay);

/// Writes the tasks that pass the receive block down in `parameters.segments` pieces, one after the
/// other.
void pass_down_in_segments(schedule::Builder& b, const TreeNode& node);

/// This rank's node in the k-nomial tree over the ranks counted from the root.
TreeNode k_nomial_node(const schedule::Builder& b, std::uint32_t radix);

}  // namespace tutti::collectives
