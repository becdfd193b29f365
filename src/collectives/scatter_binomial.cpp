// Binomial Scatter: ceil(log2 P) rounds for P ranks. Each node receives the blocks of its subtree
// and sends each child the blocks of the child's subtree, the largest subtree first.
#include "collectives/algorithms.hpp"
#include "collectives/arithmetic.hpp"
#include "collectives/subtree.hpp"

namespace tutti::collectives {

namespace {

void scatter_binomial(Builder& b) {
  using schedule::Buffer;
  using schedule::BufferSlice;
  const FromRoot numbers(b);
  const BinomialNode me = BinomialNode::of(numbers.me(), b.ranks());
  const bool root = me.number == 0;
  const std::uint32_t rounds = ceil_log(b.ranks(), 2);
  if (!root && !me.leaf()) b.scratch(me.size);
  if (!root) {
    b.round(rounds - 1 - ceil_log(me.reach, 2));
    for_each_piece(numbers, me, me.parent(), Buffer::send,
                   [&](const BufferSlice& own, const BufferSlice&) {
                     b.recv(numbers.rank(me.parent()), me.leaf() ? b.receive_block() : own);
                   });
  }
  for (std::uint32_t width = me.reach / 2; width > 0; width /= 2) {
    if (me.number + width >= b.ranks()) continue;
    const BinomialNode child = BinomialNode::of(me.number + width, b.ranks());
    b.round(rounds - 1 - ceil_log(width, 2));
    for_each_piece(numbers, child, me.number, Buffer::send,
                   [&](const BufferSlice&, const BufferSlice& here) {
                     b.send(numbers.rank(child.number), here);
                   });
  }
  if (root) b.copy(b.send_block(b.me()), b.receive_block());
  if (!root && !me.leaf()) b.copy(block_of(Buffer::scratch, 0), b.receive_block());
}

}  // namespace

AlgorithmEntries scatter_binomial_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::scatter,
       .name = "binomial",
       .summary = "ceil(log2 P) rounds: short messages",
       .write = scatter_binomial},
  };
  return kEntries;
}

}  // namespace tutti::collectives
