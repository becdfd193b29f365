// Recursive halving Reduce-Scatter: log2 P rounds for P ranks; the fold is not in rank order. In
// each round partners exchange halves of the blocks that they still reduce, and each retains the
// half that contains its own block. Folding (folding.hpp) extends the algorithm to any P.
#include "collectives/algorithms.hpp"
#include "collectives/folding.hpp"

namespace tutti::collectives {

namespace {

void reduce_scatter_halving(Builder& b) {
  using schedule::Buffer;
  using schedule::BufferSlice;
  const std::uint32_t ranks = b.ranks();
  const Folding folding(b.me(), ranks);
  const BufferSlice all_sent = blocks_of(Buffer::send, 0, ranks);
  if (folding.folded()) {
    b.send(folding.pair_partner(), all_sent);
    b.recv(folding.pair_partner(), b.receive_block());
    return;
  }
  // Layout of scratch: the partial result of each block, then the received data of each block.
  const BufferSlice sums = b.scratch(ranks);
  const BufferSlice incoming = b.scratch(ranks);
  const auto of_actors = [&](const BufferSlice& area, std::uint32_t first, std::uint32_t count) {
    const std::uint32_t begin = folding.first_rank(first);
    const std::uint32_t end = folding.first_rank(first + count);
    return blocks_of(Buffer::scratch, area.first_block + begin, end - begin);
  };
  b.copy(all_sent, sums);
  if (folding.paired()) {
    b.recv(folding.pair_partner(), incoming);
    b.reduce(incoming, sums, schedule::Side::before);
  }

  std::uint32_t first = 0;  // first actor (folding.hpp) whose block this rank still reduces
  std::uint32_t round = folding.first_round();
  for (std::uint32_t half = folding.actors() / 2; half > 0; half /= 2) {
    const std::uint32_t partner = folding.actor() ^ half;
    const bool upper = folding.actor() >= first + half;
    const std::uint32_t kept = upper ? first + half : first;
    const std::uint32_t given = upper ? first : first + half;
    b.round(round++);
    b.send(folding.rank(partner), of_actors(sums, given, half));
    b.recv(folding.rank(partner), of_actors(incoming, kept, half));
    b.reduce(of_actors(incoming, kept, half), of_actors(sums, kept, half),
             upper ? schedule::Side::before : schedule::Side::after);
    first = kept;
  }
  const auto sum_of = [&](Rank rank) {
    return block_of(Buffer::scratch, sums.first_block + index(rank));
  };
  b.round(round);
  b.copy(sum_of(b.purpose().rank), b.receive_block());
  if (folding.paired()) b.send(folding.pair_partner(), sum_of(folding.pair_partner()));
}

}  // namespace

AlgorithmEntries reduce_scatter_halving_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::reduce_scatter,
       .name = "halving",
       .summary = "log2 P rounds, two more if P is not a power of two",
       .write = reduce_scatter_halving},
  };
  return kEntries;
}

}  // namespace tutti::collectives
