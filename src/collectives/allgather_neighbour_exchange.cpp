// Neighbour exchange Allgather: P/2 rounds for an even number P of ranks, with the right and the
// left neighbour in turn. In the first round the ranks 2m and 2m+1 exchange their blocks; in each
// later round a rank passes on the two blocks that it received last. The ring algorithm uses the
// same two connections of a rank but takes about twice as many rounds.
#include "base/error.hpp"
#include "collectives/algorithms.hpp"

namespace tutti::collectives {

namespace {

Status needs_even_ranks(const Purpose& purpose) {
  if (purpose.ranks % 2 == 0 || purpose.ranks == 1) return {};
  return failure(Code::invalid_argument,
                 "{} by the algorithm '{}' needs an even number of ranks, not {}: choose 'ring', "
                 "or leave one rank out",
                 to_string(purpose.collective), purpose.algorithm, purpose.ranks);
}

void allgather_neighbour_exchange(Builder& b) {
  const std::uint32_t me = b.me();
  const std::uint32_t pairs = b.ranks() / 2;
  const bool even = me % 2 == 0;
  const auto pair_blocks = [&](std::uint32_t pair) { return b.receive_blocks(2 * pair, 2); };
  b.copy(b.send_block(), b.receive_block(me));
  if (b.ranks() == 1) return;
  const std::uint32_t twin = me ^ 1u;
  b.send(rank_of(twin), b.send_block());
  b.recv(rank_of(twin), b.receive_block(twin));

  std::uint32_t held = me / 2;
  for (std::uint32_t round = 1; round < pairs; ++round) {
    // In an odd round, an even rank exchanges with its left neighbour and an odd rank with its
    // right one; in an even round, the sides are swapped. The neighbour sends the two blocks of the
    // pair `next`, which is `away` pairs from this rank's own pair in the direction of the
    // neighbour.
    const bool left = even == (round % 2 == 1);
    const std::uint32_t away = (round + 1) / 2;
    const std::uint32_t next = (me / 2 + (left ? pairs - away : away)) % pairs;
    const Rank neighbour = b.around(left ? -1 : 1);
    b.round(round);
    b.send(neighbour, pair_blocks(held));
    b.recv(neighbour, pair_blocks(next));
    held = next;
  }
}

}  // namespace

AlgorithmEntries allgather_neighbour_exchange_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::allgather,
       .name = "neighbour_exchange",
       .summary = "P/2 rounds, two connections, even P",
       .write = allgather_neighbour_exchange,
       .restriction = needs_even_ranks},
  };
  return kEntries;
}

}  // namespace tutti::collectives
