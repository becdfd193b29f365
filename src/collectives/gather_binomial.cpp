// Binomial Gather: ceil(log2 P) rounds for P ranks. Each node collects the blocks of its subtree
// and then sends them to its parent together.
#include "collectives/algorithms.hpp"
#include "collectives/arithmetic.hpp"
#include "collectives/subtree.hpp"

namespace tutti::collectives {

namespace {

void gather_binomial(Builder& b) {
  using schedule::Buffer;
  using schedule::BufferSlice;
  const FromRoot numbers(b);
  const BinomialNode me = BinomialNode::of(numbers.me(), b.ranks());
  const bool root = me.number == 0;
  if (!root && !me.leaf()) b.scratch(me.size);
  const BufferSlice own_place = root ? b.receive_block(b.me()) : block_of(Buffer::scratch, 0);
  if (root || !me.leaf()) b.copy(b.send_block(), own_place);

  for (std::uint32_t width = 1; width < me.reach; width *= 2) {
    if (me.number + width >= b.ranks()) break;
    const BinomialNode child = BinomialNode::of(me.number + width, b.ranks());
    b.round(ceil_log(width, 2));
    for_each_piece(numbers, child, me.number, Buffer::receive,
                   [&](const BufferSlice&, const BufferSlice& here) {
                     b.recv(numbers.rank(child.number), here);
                   });
  }
  if (root) return;
  b.round(ceil_log(me.reach, 2));
  for_each_piece(numbers, me, me.parent(), Buffer::receive,
                 [&](const BufferSlice& own, const BufferSlice&) {
                   b.send(numbers.rank(me.parent()), me.leaf() ? b.send_block() : own);
                 });
}

}  // namespace

AlgorithmEntries gather_binomial_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::gather,
       .name = "binomial",
       .summary = "ceil(log2 P) rounds: short messages",
       .write = gather_binomial},
  };
  return kEntries;
}

}  // namespace tutti::collectives
