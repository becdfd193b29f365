// Pipelined chain Broadcast for long messages and few ranks: each rank passes the segments on to
// the next rank. With P ranks and s segments it takes P - 2 + s rounds, and every link carries the
// message once.
#include "collectives/algorithms.hpp"
#include "collectives/arithmetic.hpp"
#include "collectives/tree.hpp"

namespace tutti::collectives {

namespace {

void broadcast_chain(Builder& b) {
  const FromRoot numbers(b);
  TreeNode node;
  if (numbers.me() > 0) node.parent = {numbers.rank(numbers.me() - 1), numbers.me() - 1};
  if (numbers.me() + 1 < b.ranks())
    node.children.push_back({numbers.rank(numbers.me() + 1), numbers.me()});
  pass_down_in_segments(b, node);
}

}  // namespace

AlgorithmEntries broadcast_chain_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::broadcast,
       .name = "chain",
       .summary = "pipelined, P - 2 + segments rounds: long messages, few ranks",
       .heeds = kSegments,
       .write = broadcast_chain},
  };
  return kEntries;
}

}  // namespace tutti::collectives
