#include "collectives/tree.hpp"

namespace tutti::collectives {

void pass_down(schedule::Builder& b, const TreeNode& node, const schedule::BufferSlice& piece,
               std::uint32_t delay) {
  if (node.parent.rank != kNoRank) b.round(node.parent.round + delay).recv(node.parent.rank, piece);
  for (const TreeNode::Link& child : node.children)
    b.round(child.round + delay).send(child.rank, piece);
}

void pass_down_in_segments(schedule::Builder& b, const TreeNode& node) {
  const std::uint32_t segments = b.purpose().parameters.segments;
  for (std::uint32_t s = 0; s < segments; ++s) {
    pass_down(b, node, segments == 1 ? b.receive_block() : b.receive_block().part(s, segments), s);
  }
}

}  // namespace tutti::collectives
