// Tests the arithmetic of masked atomics against the bit-by-bit pseudocode of [OFED-AT].
#include "base/masked_atomics.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "bitwise_atomics.hpp"
#include "count_wanted.hpp"

namespace tutti {
namespace {

TEST(MaskedAtomics, FetchAdd_ofBytesWithAnyFieldBoundaries_equalsTheReference) {
  for (std::uint64_t boundaries = 0; boundaries < 256; ++boundaries) {
    for (std::uint64_t a = 0; a < 256; ++a) {
      for (std::uint64_t b = 0; b < 256; ++b) {
        const AtomicOperands operands = AtomicOperands::fetch_add(b, boundaries);
        ASSERT_EQ(masked_fetch_add(a, operands), test::fetch_add_by_bits(a, operands, 9))
            << a << " + " << b << ", boundaries " << boundaries;
      }
    }
  }
}

TEST(MaskedAtomics, RandomOperands_giveTheResultsOfTheBitwiseReference) {
  const std::uint64_t cases = test::count_wanted("TUTTI_TEST_ATOMIC_CASES", 200'000);
  Random random(11);
  for (std::uint64_t i = 0; i < cases; ++i) {
    const std::uint64_t old = random.next();
    const AtomicOperands operands = test::draw_operands(old, [&] { return random.next(); });
    ASSERT_EQ(masked_fetch_add(old, operands), test::fetch_add_by_bits(old, operands));
    ASSERT_EQ(masked_compare_swap(old, operands), test::compare_swap_by_bits(old, operands));
  }
  std::printf("[ figures  ] %llu random cases of each operation equal the pseudocode\n",
              static_cast<unsigned long long>(cases));
}

TEST(MaskedAtomics, AtomicsWithFullMasks_equalPlainAtomics) {
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

constexpr std::uint64_t kThreads = 64;

template <typename Work>
void run_threads(const Work& work) {
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) threads.emplace_back([&work, t] { work(t); });
  for (std::thread& one : threads) one.join();
}

TEST(MaskedAtomics, ThreadsThatAddToFieldsOfOneWord_loseNothing) {
  constexpr std::uint64_t kAdds = 1'000;
  constexpr std::uint64_t kTops = 0x8000'8000'8000'8000;
  std::uint64_t word = 0;
  run_threads([&word](std::uint64_t t) {
    const auto add = AtomicOperands::fetch_add(std::uint64_t{1} << 16 * (t % 4), kTops);
    for (std::uint64_t i = 0; i < kAdds; ++i)
      (void)execute(AtomicKind::fetch_add, std::as_writable_bytes(std::span(&word, 1)), add);
  });
  EXPECT_EQ(word, kThreads / 4 * kAdds * 0x0001'0001'0001'0001);
}

TEST(MaskedAtomics, ThreadsThatTakeABitByCompareSwap_excludeEachOther) {
  constexpr std::uint64_t kTurns = 50;
  constexpr std::uint64_t kBit = std::uint64_t{1} << 40;
  constexpr std::uint64_t kOthers = 0x1234'0000'0000'5678;
  const AtomicOperands take{
      .compare_add = 0, .swap = kBit, .compare_mask = kBit, .swap_mask = kBit};
  const AtomicOperands release{.compare_add = kBit, .compare_mask = kBit, .swap_mask = kBit};
  std::uint64_t word = kOthers;
  std::uint64_t turns = 0;  // turns taken so far; the lock kBit in `word` protects this count
  run_threads([&](std::uint64_t) {
    const std::span<std::byte> memory = std::as_writable_bytes(std::span(&word, 1));
    for (std::uint64_t i = 0; i < kTurns; ++i) {
      while ((*execute(AtomicKind::compare_swap, memory, take) & kBit) != 0)
        std::this_thread::yield();
      ++turns;
      EXPECT_EQ(execute(AtomicKind::compare_swap, memory, release), kOthers | kBit);
    }
  });
  EXPECT_EQ(turns, kThreads * kTurns);
  EXPECT_EQ(word, kOthers);
}

}  // namespace
}  // namespace tutti
