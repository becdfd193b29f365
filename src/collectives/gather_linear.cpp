// Linear Gather: every rank sends its block to the root in one round; no block travels twice.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

void gather_linear(Builder& b) {
  if (!b.is_root()) {
    b.send(b.purpose().root, b.send_block());
    return;
  }
  b.copy(b.send_block(), b.receive_block(b.me()));
  for (std::uint32_t distance = 1; distance < b.ranks(); ++distance) {
    const Rank from = b.around(distance);
    b.recv(from, b.receive_block(index(from)));
  }
}

}  // namespace

AlgorithmEntries gather_linear_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::gather,
       .name = "linear",
       .summary = "one round: long messages",
       .write = gather_linear},
      {.collective = Collective::gatherv,
       .name = "linear",
       .summary = "one round, blocks of any sizes",
       .write = gather_linear},
  };
  return kEntries;
}

}  // namespace tutti::collectives
