// Linear Barrier: every rank signals every other rank, in one round over P-1 connections for P
// ranks.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

void barrier_linear(Builder& b) {
  for (std::uint32_t distance = 1; distance < b.ranks(); ++distance) {
    b.signal(b.around(distance));
    b.recv_signal(b.around(-std::int64_t{distance}));
  }
}

}  // namespace

AlgorithmEntries barrier_linear_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::barrier,
       .name = "linear",
       .summary = "one round, P-1 connections; with slot exchange, one slot for each rank",
       .write = barrier_linear},
  };
  return kEntries;
}

}  // namespace tutti::collectives
