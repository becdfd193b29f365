// Binomial Reduce: ceil(log2 P) rounds for P ranks. A node folds its own contribution, then the
// results of its children; each result is the fold of consecutive ranks.
//
// The fold begins with the rank at the top of the tree. If the root is at the top, the fold is in
// rank order only for root 0. The variant that folds in rank order therefore has rank 0 at the top,
// and rank 0 sends the result to the root.
#include "collectives/algorithms.hpp"
#include "collectives/arithmetic.hpp"

namespace tutti::collectives {

namespace {

/// Writes the tasks of a reduction along the tree whose top is rank `top`. That rank stores the
/// fold in `result`.
void reduce_to(Builder& b, std::uint32_t top, const schedule::BufferSlice& result) {
  const FromRoot numbers(top, b.ranks(), b.me());
  const BinomialNode me = BinomialNode::of(numbers.me(), b.ranks());
  if (me.leaf() && me.number != 0) {
    b.send(numbers.rank(me.parent()), b.send_block());
    return;
  }
  const schedule::BufferSlice sum = me.number == 0 ? result : b.scratch();
  b.copy(b.send_block(), sum);
  for (std::uint32_t width = 1; width < me.reach && me.number + width < b.ranks(); width *= 2) {
    const schedule::BufferSlice theirs = b.scratch();
    b.round(ceil_log(width, 2));
    b.recv(numbers.rank(me.number + width), theirs);
    b.reduce(theirs, sum);
  }
  if (me.number != 0) b.round(ceil_log(me.reach, 2)).send(numbers.rank(me.parent()), sum);
}

void reduce_binomial(Builder& b) { reduce_to(b, index(b.purpose().root), b.receive_block()); }

void reduce_binomial_ordered(Builder& b) {
  const Rank root = b.purpose().root;
  const Rank top = rank_of(0);
  if (root == top) return reduce_to(b, 0, b.receive_block());
  const schedule::BufferSlice result = b.me() == 0 ? b.scratch() : schedule::BufferSlice();
  reduce_to(b, 0, result);
  b.round(ceil_log(b.ranks(), 2));
  if (b.me() == 0) b.send(root, result);
  if (b.is_root()) b.recv(top, b.receive_block());
}

}  // namespace

AlgorithmEntries reduce_binomial_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::reduce,
       .name = "binomial",
       .summary = "ceil(log2 P) rounds; in rank order only for root 0",
       .write = reduce_binomial},
      {.collective = Collective::reduce,
       .name = "binomial_ordered",
       .summary = "in rank order, one more round unless the root is rank 0",
       .write = reduce_binomial_ordered},
  };
  return kEntries;
}

}  // namespace tutti::collectives
