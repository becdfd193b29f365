// Scatter-Allgather Broadcast for long messages: with P ranks, the message is cut into P parts,
// which are scattered down a binomial tree and then gathered around a ring. Each rank receives the
// message once and sends it about once.
//
// After the scatter a rank already has all parts for its subtree. Its left neighbour knows which
// parts these are and does not send them again.
#include "collectives/algorithms.hpp"
#include "collectives/arithmetic.hpp"

namespace tutti::collectives {

namespace {

/// True if the scatter delivers this part to the node, either for the node or for its subtree.
bool holds(const BinomialNode& node, std::uint32_t part) {
  return part >= node.number && part < node.number + node.size;
}

std::uint32_t scatter(Builder& b, const FromRoot& numbers, const BinomialNode& node) {
  const std::uint32_t ranks = b.ranks();
  const std::uint32_t rounds = ceil_log(ranks, 2);
  const auto round_of = [&](std::uint32_t width) { return rounds - 1 - ceil_log(width, 2); };
  if (node.number != 0)
    b.round(round_of(node.reach))
        .recv(numbers.rank(node.parent()),
              b.receive_block().part(node.number, node.number + node.size, ranks));
  for (std::uint32_t width = node.reach / 2; width > 0; width /= 2) {
    if (node.number + width >= ranks) continue;
    const BinomialNode child = BinomialNode::of(node.number + width, ranks);
    b.round(round_of(width))
        .send(numbers.rank(child.number),
              b.receive_block().part(child.number, child.number + child.size, ranks));
  }
  return rounds;
}

void broadcast_scatter_allgather(Builder& b) {
  const FromRoot numbers(b);
  const std::uint32_t ranks = b.ranks();
  const BinomialNode me = BinomialNode::of(numbers.me(), ranks);
  const BinomialNode right = BinomialNode::of((numbers.me() + 1) % ranks, ranks);
  const std::uint32_t scattered = scatter(b, numbers, me);
  for (std::uint32_t step = 0; step + 1 < ranks; ++step) {
    const std::uint32_t mine = (numbers.me() + ranks - step) % ranks;
    const std::uint32_t next = (mine + ranks - 1) % ranks;
    b.round(scattered + step);
    if (!holds(right, mine)) b.send(b.around(1), b.receive_block().part(mine, ranks));
    if (!holds(me, next)) b.recv(b.around(-1), b.receive_block().part(next, ranks));
  }
}

}  // namespace

AlgorithmEntries broadcast_scatter_allgather_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::broadcast,
       .name = "scatter_allgather",
       .summary = "binomial scatter, ring allgather: long messages",
       .write = broadcast_scatter_allgather},
  };
  return kEntries;
}

}  // namespace tutti::collectives
