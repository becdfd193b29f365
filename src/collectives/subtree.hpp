// The blocks of a subtree in Gather and Scatter. The blocks belong to consecutive ranks, counted
// from the root. If they wrap around the end of the root's buffer, they need two messages.
#pragma once

#include <cstdint>

#include "collectives/arithmetic.hpp"
#include "schedule/builder.hpp"

namespace tutti::collectives {

/// Calls move(own, theirs) for each message between the top node of a subtree and the parent of
/// that node. `own` names the message's blocks at the top node, and `theirs` the same blocks at the
/// parent.
template <typename Move>
void for_each_piece(const FromRoot& numbers, const BinomialNode& child, std::uint32_t parent,
                    schedule::Buffer root_buffer, const Move& move) {
  using schedule::blocks_of;
  const auto piece = [&](std::uint32_t first, std::uint32_t count,
                         const schedule::BufferSlice& there) {
    if (count > 0) move(blocks_of(schedule::Buffer::scratch, first, count), there);
  };
  if (parent != 0) {
    piece(0, child.size, blocks_of(schedule::Buffer::scratch, child.number - parent, child.size));
    return;
  }
  const std::uint32_t first = index(numbers.rank(child.number));
  const std::uint32_t before_wrap = std::min(child.size, numbers.ranks() - first);
  piece(0, before_wrap, blocks_of(root_buffer, first, before_wrap));
  piece(before_wrap, child.size - before_wrap, blocks_of(root_buffer, 0, child.size - before_wrap));
}

}  // namespace tutti::collectives
