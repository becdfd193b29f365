// Standard Exchange Allgather with k ports ([Inozemtsev12] 4.1): log_{k+1} P rounds for P = (k+1)^n
// ranks. Rank numbers are written to the base k+1. In round j the k+1 ranks whose numbers differ
// only in digit j exchange all blocks that they have. Blocks arrive at their final position, and
// one connection serves both directions.
//
// The text and the tables of [Inozemtsev12] differ: the text computes the number of a partner
// modulo P, and the tables compute digit j of that number modulo k+1. Only the tables are correct.
#include "base/error.hpp"
#include "collectives/algorithms.hpp"
#include "collectives/arithmetic.hpp"

namespace tutti::collectives {

namespace {

Status needs_power_of_ports(const Purpose& purpose) {
  const std::uint32_t base = purpose.parameters.ports + 1;
  if (is_power_of(purpose.ranks, base)) return {};
  return failure(Code::invalid_argument,
                 "{} by the algorithm '{}' with {} ports needs a number of ranks that is a power "
                 "of {}, but there are {} ranks: choose 'bruck', or another number of ports",
                 to_string(purpose.collective), purpose.algorithm, base - 1, base, purpose.ranks);
}

void allgather_standard_exchange(Builder& b) {
  const std::uint32_t base = b.purpose().parameters.ports + 1;
  const std::uint32_t me = b.me();
  b.copy(b.send_block(), b.receive_block(me));
  std::uint32_t round = 0;
  for (std::uint32_t width = 1; width < b.ranks(); width *= base) {
    const std::uint32_t digit = me / width % base;
    const auto blocks_held_by = [&](std::uint32_t rank) {
      return b.receive_blocks(rank - rank % width, width);
    };
    const auto with_digit = [&](std::uint32_t other) { return me - digit * width + other * width; };
    b.round(round++);
    for (std::uint32_t port = 1; port < base; ++port) {
      const std::uint32_t to = with_digit((digit + port) % base);
      const std::uint32_t from = with_digit((digit + base - port) % base);
      b.send(rank_of(to), width == 1 ? b.send_block() : blocks_held_by(me));
      b.recv(rank_of(from), blocks_held_by(from));
    }
  }
}

}  // namespace

AlgorithmEntries allgather_standard_exchange_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::allgather,
       .name = "standard_exchange",
       .summary = "log_{k+1} P rounds between exchange partners, P = (k+1)^n",
       .heeds = kPorts,
       .write = allgather_standard_exchange,
       .restriction = needs_power_of_ports},
  };
  return kEntries;
}

}  // namespace tutti::collectives
