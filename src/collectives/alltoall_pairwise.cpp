// Pairwise Alltoall: P-1 rounds; in each every rank sends to one rank and receives from one, and
// goes on when both are done. No receiver is ever sent to by two: for long messages.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

void alltoall_pairwise(Builder& b) {
  b.copy(b.send_block(b.me()), b.receive_block(b.me()));
  schedule::TaskRef sent;
  schedule::TaskRef received;
  for (std::uint32_t distance = 1; distance < b.ranks(); ++distance) {
    const Rank to = b.around(distance);
    const Rank from = b.around(-std::int64_t{distance});
    b.round(distance - 1);
    // Receives are posted at once; only sending is taken in turn.
    b.after({sent, received});
    sent = b.send(to, b.send_block(index(to)));
    received = b.recv(from, b.receive_block(index(from)));
  }
}

}  // namespace tutti::collectives
