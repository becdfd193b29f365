// Linear Broadcast: the root sends to all other ranks at once, in one round over P-1 connections
// for P ranks.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

void broadcast_linear(Builder& b) {
  if (!b.is_root()) {
    b.recv(b.purpose().root, b.receive_block());
    return;
  }
  for (std::uint32_t distance = 1; distance < b.ranks(); ++distance) {
    b.send(b.around(distance), b.receive_block());
  }
}

}  // namespace

AlgorithmEntries broadcast_linear_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::broadcast,
       .name = "linear",
       .summary = "one round, P-1 connections; with slot exchange short blocks are written once",
       .write = broadcast_linear},
  };
  return kEntries;
}

}  // namespace tutti::collectives
