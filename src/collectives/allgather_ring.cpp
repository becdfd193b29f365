// Ring Allgather ([Inozemtsev12] 4.1): P-1 rounds, in which each rank passes on to the right what
// arrived from the left. Each of its two connections carries every byte once. Blocks travel singly
// and directly to their place, so blocks of different sizes (Allgatherv) are possible.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

void allgather_ring(Builder& b) {
  b.copy(b.send_block(), b.receive_block(b.me()));
  for (std::uint32_t step = 0; step + 1 < b.ranks(); ++step) {
    const std::uint32_t mine = index(b.around(-std::int64_t{step}));
    const std::uint32_t next = index(b.around(-std::int64_t{step} - 1));
    b.round(step);
    b.send(b.around(1), step == 0 ? b.send_block() : b.receive_block(mine));
    b.recv(b.around(-1), b.receive_block(next));
  }
}

}  // namespace tutti::collectives
