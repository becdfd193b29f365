// Linear Allgather: every rank sends its block to every other rank at once, in one round over P-1
// connections for P ranks. It suits few ranks and is the baseline of the other algorithms. Blocks
// may have different sizes.
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

void allgather_linear(Builder& b) {
  b.copy(b.send_block(), b.receive_block(b.me()));
  for (std::uint32_t distance = 1; distance < b.ranks(); ++distance) {
    const Rank from = b.around(-std::int64_t{distance});
    b.send(b.around(distance), b.send_block());
    b.recv(from, b.receive_block(index(from)));
  }
}

}  // namespace tutti::collectives
