// Linear Scatter: the root sends each rank its block, in one round.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

void scatter_linear(Builder& b) {
  if (!b.is_root()) {
    b.recv(b.purpose().root, b.receive_block());
    return;
  }
  b.copy(b.send_block(b.me()), b.receive_block());
  for (std::uint32_t distance = 1; distance < b.ranks(); ++distance) {
    const Rank to = b.around(distance);
    b.send(to, b.send_block(index(to)));
  }
}

}  // namespace

AlgorithmEntries scatter_linear_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::scatter,
       .name = "linear",
       .summary = "one round: long messages",
       .write = scatter_linear},
      {.collective = Collective::scatterv,
       .name = "linear",
       .summary = "one round, blocks of any sizes",
       .write = scatter_linear},
  };
  return kEntries;
}

}  // namespace tutti::collectives
