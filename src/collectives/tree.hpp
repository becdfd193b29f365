// A node of a Broadcast tree: it receives each piece from its parent and sends it to its children.
// Broadcast trees differ only in the parents and children of their nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/builder.hpp"

namespace tutti::collectives {

struct TreeNode {
  /// A link to the parent or to a child: the rank at the other end, and the round in which the
  /// first piece passes over the link.
  struct Link {
    Rank rank = kNoRank;
    std::uint32_t round = 0;
  };
  Link parent;  ///< parent in the tree; at the root, `parent.rank` is kNoRank
  std::vector<Link> children;
};

/// Writes the tasks that pass one piece through the node; `delay` is the number of rounds by which
/// the piece follows the first one.
void pass_down(schedule::Builder& b, const TreeNode& node, const schedule::BufferSlice& piece,
               std::uint32_t delay);

/// Writes the tasks by which this rank passes its receive block down the tree. The block is cut
/// into `parameters.segments` pieces, which are sent one after the other.
void pass_down_in_segments(schedule::Builder& b, const TreeNode& node);

/// This rank's node in the k-nomial tree over the ranks counted from the root.
TreeNode k_nomial_node(const schedule::Builder& b, std::uint32_t radix);

}  // namespace tutti::collectives
