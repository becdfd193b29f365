// A node of a broadcast tree, and what it does: receive from its parent, send to its children,
// piece by piece. The trees differ only in who is whose child.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/builder.hpp"

namespace tutti::collectives {

struct TreeNode {
  /// A neighbour in the tree, and the round in which a message of one piece is sent between them.
  struct Link {
    Rank rank = kNoRank;
    std::uint32_t round = 0;
  };
  Link parent;  ///< of the root: no rank
  std::vector<Link> children;
};

/// Writes one piece's way through the node, `delay` rounds after the first piece's.
void pass_down(schedule::Builder& b, const TreeNode& node, const schedule::Segment& piece,
               std::uint32_t delay);

/// The whole receive block in `parameters.segments` pieces, one after the other.
void pass_down_in_segments(schedule::Builder& b, const TreeNode& node);

/// The k-nomial tree over ranks counted from the root.
TreeNode k_nomial_node(const schedule::Builder& b, std::uint32_t radix);

}  // namespace tutti::collectives
