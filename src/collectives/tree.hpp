// A node of a Broadcast tree: it receives each piece from its parent and sends it to its children.
// Trees differ only in their links.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/builder.hpp"

namespace tutti::collectives {

struct TreeNode {
  /// A neighbour in the tree and the round in which a one-piece message passes between them.
  struct Link {
    Rank rank = kNoRank;
    std::uint32_t round = 0;
  };
  Link parent;  ///< no rank at the root
  std::vector<Link> children;
};

/// Writes the tasks that pass one piece through the node, `delay` rounds after the first piece.
void pass_down(schedule::Builder& b, const TreeNode& node, const schedule::Segment& piece,
               std::uint32_t delay);

/// Passes the receive block down in `parameters.segments` pieces, one after the other.
void pass_down_in_segments(schedule::Builder& b, const TreeNode& node);

/// The k-nomial tree over ranks counted from the root.
TreeNode k_nomial_node(const schedule::Builder& b, std::uint32_t radix);

}  // namespace tutti::collectives
