// Recursive doubling Allgather: log2 P rounds of pairwise exchange if the number P of ranks is a
// power of two.
//
// For other P, let n be the largest power of two below P. Each rank r with r >= n first sends its
// block to rank r - n. Rank r - n passes that block on in a second message of each round, and in
// the end sends the whole result to rank r. The algorithm then takes two more rounds.
#include <algorithm>
#include <bit>

#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

/// Let n be the largest power of two that is at most P. Calls `move` with the blocks of the `width`
/// ranks from `first` on and, if rank `first` + n exists, with the blocks of at most `width` ranks
/// from that rank on.
template <typename Move>
void for_group(Builder& b, std::uint32_t first, std::uint32_t width, const Move& move) {
  const std::uint32_t power = std::bit_floor(b.ranks());
  move(b.receive_blocks(first, width));
  const std::uint32_t upper = power + first;
  if (upper < b.ranks()) move(b.receive_blocks(upper, std::min(width, b.ranks() - upper)));
}

void allgather_recursive_doubling(Builder& b) {
  const std::uint32_t me = b.me();
  const std::uint32_t power = std::bit_floor(b.ranks());
  if (me >= power) {
    b.send(rank_of(me - power), b.send_block());
    b.recv(rank_of(me - power), b.receive_blocks(0, b.ranks()));
    return;
  }
  const bool carries = me + power < b.ranks();
  b.copy(b.send_block(), b.receive_block(me));
  if (carries) b.recv(rank_of(me + power), b.receive_block(me + power));

  std::uint32_t round = power < b.ranks() ? 1 : 0;
  for (std::uint32_t width = 1; width < power; width *= 2) {
    const std::uint32_t partner = me ^ width;
    b.round(round++);
    for_group(b, me - me % width, width,
              [&](const schedule::BufferSlice& blocks) { b.send(rank_of(partner), blocks); });
    for_group(b, partner - partner % width, width,
              [&](const schedule::BufferSlice& blocks) { b.recv(rank_of(partner), blocks); });
  }
  if (carries) b.round(round).send(rank_of(me + power), b.receive_blocks(0, b.ranks()));
}

}  // namespace

AlgorithmEntries allgather_recursive_doubling_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::allgather,
       .name = "recursive_doubling",
       .summary = "log2 P rounds, two more if P is not a power of two",
       .write = allgather_recursive_doubling},
  };
  return kEntries;
}

}  // namespace tutti::collectives
