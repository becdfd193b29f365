// Tests the arithmetic of masked atomics against the bit-by-bit pseudocode of [OFED-AT].
#include "base/masked_atomics.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "base/random.hpp"

namespace tutti {
namespace {

struct Answered {
  std::uint64_t old_value;
  std::uint64_t value;
};

/// The pseudocode of [OFED-AT] bit by bit. In the pseudocode the answer is the sum and the word
/// keeps its value; here the answer is the old value, as in every atomic, and the word becomes the
/// sum.
Answered fetch_add_by_bits(std::uint64_t va, const AtomicOperands& operands, unsigned bits = 64) {
  std::uint64_t sum = 0;
  unsigned carry = 0;
  for (unsigned i = 0; i < bits; ++i) {
    const std::uint64_t position = std::uint64_t{1} << i;
    const unsigned added =
        carry + ((va & position) != 0 ? 1 : 0) + ((operands.compare_add & position) != 0 ? 1 : 0);
    if ((added & 1) != 0) sum |= position;
    carry = (added & 2) != 0 && (operands.compare_mask & position) == 0 ? 1 : 0;
  }
  return {va, sum};
}

Answered compare_swap_by_bits(std::uint64_t va, const AtomicOperands& operands) {
  std::uint64_t value = 0;
  bool equal = true;
  for (unsigned i = 0; i < 64; ++i) {
    const std::uint64_t position = std::uint64_t{1} << i;
    const bool differs = ((va ^ operands.compare_add) & position) != 0;
    equal = equal && !(differs && (operands.compare_mask & position) != 0);
    value |= ((operands.swap_mask & position) != 0 ? operands.swap : va) & position;
  }
  return {va, equal ? value : va};
}

TEST(MaskedAtomics, FetchAdd_withEveryByteAddendAndBoundary_isTheBitwiseSum) {
  for (std::uint64_t boundaries = 0; boundaries < 256; ++boundaries) {
    for (std::uint64_t a = 0; a < 256; ++a) {
      for (std::uint64_t b = 0; b < 256; ++b) {
        const AtomicOperands operands = AtomicOperands::fetch_add(b, boundaries);
        ASSERT_EQ(masked_fetch_add(a, operands), fetch_add_by_bits(a, operands, 9).value)
            << a << " + " << b << ", boundaries " << boundaries;
      }
    }
  }
}

TEST(MaskedAtomics, RandomOperands_giveTheResultsOfTheBitwiseReference) {
  Random random(11);
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t old = random.next();
    // Sparse masks make equal comparisons and long fields likely.
    const AtomicOperands operands{random.below(3) == 0 ? old : random.next(), random.next(),
                                  random.next() & random.next() & random.next() & random.next(),
                                  random.next() & random.next()};
    ASSERT_EQ(masked_fetch_add(old, operands), fetch_add_by_bits(old, operands).value);
    ASSERT_EQ(masked_compare_swap(old, operands), compare_swap_by_bits(old, operands).value);
  }
}

TEST(MaskedAtomics, FullMasks_arePlainAtomics) {
  EXPECT_EQ(masked_compare_swap(5, AtomicOperands::compare_swap(5, 9)), 9u);
  EXPECT_EQ(masked_compare_swap(6, AtomicOperands::compare_swap(5, 9)), 6u);
  EXPECT_EQ(masked_fetch_add(UINT64_MAX, AtomicOperands::fetch_add(2)), 1u);
}

TEST(MaskedAtomics, MemoryThatIsNoAlignedWord_isRefused) {
  alignas(8) std::array<std::byte, 24> memory{};
  const std::span<std::byte> bytes(memory);
  const AtomicOperands one = AtomicOperands::fetch_add(1);
  EXPECT_FALSE(execute(AtomicKind::fetch_add, bytes.subspan(4, 8), one));
  EXPECT_FALSE(execute(AtomicKind::fetch_add, bytes.first(4), one));
  EXPECT_FALSE(execute(AtomicKind::fetch_add, bytes.first(16), one));
  EXPECT_EQ(execute(AtomicKind::fetch_add, bytes.subspan(8, 8), one), 0u);
  EXPECT_EQ(execute(AtomicKind::fetch_add, bytes.subspan(8, 8), one), 1u);
}

TEST(MaskedAtomics, ThreadsThatAddToFieldsOfOneWord_loseNothing) {
  constexpr int kThreads = 8;
  constexpr std::uint64_t kAdds = 200;
  constexpr std::uint64_t kTops = 0x8080'8080'8080'8080;
  std::uint64_t word = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&word, t] {
      const auto add = AtomicOperands::fetch_add(std::uint64_t{1} << 8 * t, kTops);
      for (std::uint64_t i = 0; i < kAdds; ++i)
        (void)execute(AtomicKind::fetch_add, std::as_writable_bytes(std::span(&word, 1)), add);
    });
  }
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(word, kAdds * 0x0101'0101'0101'0101);
}

}  // namespace
}  // namespace tutti
