// Masked atomics computed bit by bit by the pseudocode of [OFED-AT], as a reference for tests.
#pragma once

#include <cstdint>

#include "base/masked_atomics.hpp"

namespace tutti::test {

/// Returns the sum of a fetch-and-add. The pseudocode answers with this sum and does not change the
/// word; in Tutti, the answer is the old value and the word becomes the sum.
inline std::uint64_t fetch_add_by_bits(std::uint64_t va, const AtomicOperands& operands,
                                       unsigned bits = 64) {
  std::uint64_t sum = 0;
  unsigned carry = 0;
  for (unsigned i = 0; i < bits; ++i) {
    const std::uint64_t position = std::uint64_t{1} << i;
    const unsigned added =
        carry + ((va & position) != 0 ? 1 : 0) + ((operands.compare_add & position) != 0 ? 1 : 0);
    if ((added & 1) != 0) sum |= position;
    carry = (added & 2) != 0 && (operands.compare_mask & position) == 0 ? 1 : 0;
  }
  return sum;
}

inline std::uint64_t compare_swap_by_bits(std::uint64_t va, const AtomicOperands& operands) {
  std::uint64_t value = 0;
  bool equal = true;
  for (unsigned i = 0; i < 64; ++i) {
    const std::uint64_t position = std::uint64_t{1} << i;
    const bool differs = ((va ^ operands.compare_add) & position) != 0;
    equal = equal && !(differs && (operands.compare_mask & position) != 0);
    value |= ((operands.swap_mask & position) != 0 ? operands.swap : va) & position;
  }
  return equal ? value : va;
}

inline std::uint64_t value_by_bits(AtomicKind kind, std::uint64_t va,
                                   const AtomicOperands& operands) {
  return kind == AtomicKind::compare_swap ? compare_swap_by_bits(va, operands)
                                          : fetch_add_by_bits(va, operands);
}

/// Draws the operands of an atomic operation on a word with the value `old`; `next` returns 64
/// random bits. Few bits of the masks are set, so that comparisons often succeed and the fields of
/// a fetch-and-add are long.
template <typename Next>
AtomicOperands draw_operands(std::uint64_t old, Next&& next) {
  const std::uint64_t compare_add = next() % 3 == 0 ? old : next();
  const std::uint64_t swap = next();
  const std::uint64_t sparse = next() & next() & next() & next();
  return {compare_add, swap, sparse, next() & next()};
}

}  // namespace tutti::test
