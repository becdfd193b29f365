// Binomial Broadcast: ceil(log2 P) rounds for P ranks, the lowest latency of the point-to-point
// trees for small messages.
#include "collectives/algorithms.hpp"
#include "collectives/tree.hpp"

namespace tutti::collectives {

namespace {

void broadcast_binomial(Builder& b) { pass_down_in_segments(b, k_nomial_node(b, 2)); }

}  // namespace

AlgorithmEntries broadcast_binomial_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::broadcast,
       .name = "binomial",
       .summary = "ceil(log2 P) rounds: short messages",
       .heeds = kSegments,
       .write = broadcast_binomial},
  };
  return kEntries;
}

}  // namespace tutti::collectives
