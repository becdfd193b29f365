// Internal to kernels_avx2.cpp and kernels_avx512.cpp: a fast sum of bfloat16 for numbers that are
// neither huge nor special.
//
// To round a float32 sum s to the 8 significant bits of bfloat16, ties to even, a number M is added
// and then subtracted; the addition rounds. M is 1.5 * 2^16 * 2^exponent(s). For denormal s, M is
// zero; this is exact, because sums of bfloat16 are multiples of its smallest value.
//
// For sums from 2^112 on, and for infinities and NaN, M is infinite. The result is then infinite or
// NaN, and the general loop computes it again.
//
// This method makes every zero positive, but a sum of negative zeros must be negative. The result
// therefore gets a negative sign if all operands have one.
#pragma once

#include "reduction/kernels_vector.hpp"

namespace tutti::reduction {

template <typename Isa>
struct BfloatSum {
  using General = VectorFold<Isa, Operation::sum, ElementType::bfloat16>;
  using Bits = Register<std::uint32_t, Isa::kBytes>;
  using Words = Register<std::uint16_t, Isa::kBytes>;
  using Reals = Register<float, Isa::kBytes>;
  static constexpr std::size_t kStep = Isa::kBytes;
  /// Number of registers of each operand in one block. It depends on the register size, because the
  /// processor has 32 registers of 64 bytes but only 16 of 32 bytes.
  static constexpr std::size_t kUnroll = Isa::kBytes == 64 ? 4 : 2;
  static constexpr std::size_t kBlockBytes = kUnroll * kStep;

  static void accumulate(std::byte* dst, const std::byte* src, std::size_t count) {
    const std::byte* operands[] = {dst, src};
    combine_all<false>(dst, operands, 2, count);
  }

  static void combine(std::byte* dst, const std::byte* const* operands, std::size_t operand_count,
                      std::size_t count) {
    combine_all<true>(dst, operands, operand_count, count);
  }

 private:
  static constexpr std::uint16_t kExponent = 0x7f80;
  static constexpr std::size_t kLineBytes = 64;
  /// `combine` prefetches its operands this many bytes ahead, because the hardware prefetcher runs
  /// too few bytes ahead. `accumulate` reads only two operands, so prefetching would cost it more
  /// than it gains.
  static constexpr std::size_t kAheadBytes = 2048;

  template <bool kFetch>
  static void combine_all(std::byte* dst, const std::byte* const* operands,
                          std::size_t operand_count, std::size_t count) {
    const std::size_t size_bytes = count * element_bytes(ElementType::bfloat16);
    std::size_t at = 0;
    for (; at + kBlockBytes <= size_bytes; at += kBlockBytes) {
      if (!combine_block<kFetch>(dst, operands, operand_count, at)) {
        General::combine_range(dst, operands, operand_count, at, at + kBlockBytes);
      }
    }
    General::combine_range(dst, operands, operand_count, at, size_bytes);
  }

  static Bits load(const std::byte* from) {
    Bits pairs;
    std::memcpy(&pairs, from, sizeof pairs);
    asm("" : "+v"(pairs));  // keeps GCC from reading the memory again for each use of `pairs`
    return pairs;
  }
  static Reals even_of(const Bits& pairs) { return same_bits<Reals>(pairs << 16); }
  static Reals odd_of(const Bits& pairs) { return same_bits<Reals>(pairs & 0xffff'0000u); }

  static Reals rounded(const Reals& exact) {
    constexpr float kCut = 0x1.8p16f;
    const Reals power = same_bits<Reals>(same_bits<Bits>(exact) & 0x7f80'0000u);
    const Reals cut = Isa::multiply_add(power, kCut - Reals{}, exact);
    return Isa::multiply_add(power, -kCut - Reals{}, cut);
  }

  // Prefetches into the second-level cache, because lines of many operands at equal offsets evict
  // each other from the first-level cache.
  static void prefetch(const std::byte* operand) {
    for (std::size_t line = 0; line < kBlockBytes; line += kLineBytes) {
      __builtin_prefetch(operand + kAheadBytes + line, 0, 2);
    }
  }

  /// Writes the sums of one block and returns true if they are finite; they then equal those of the
  /// general loop (VectorFold). Otherwise writes nothing and returns false.
  template <bool kFetch>
  [[gnu::always_inline]] static bool combine_block(std::byte* dst, const std::byte* const* operands,
                                                   std::size_t operand_count, std::size_t at) {
    Reals even[kUnroll];
    Reals odd[kUnroll];
    Bits signs[kUnroll];
    if constexpr (kFetch) prefetch(operands[0] + at);
#pragma GCC unroll 4
    for (std::size_t u = 0; u < kUnroll; ++u) {
      signs[u] = load(operands[0] + at + u * kStep);
      even[u] = even_of(signs[u]);
      odd[u] = odd_of(signs[u]);
    }
    for (std::size_t i = 1; i < operand_count; ++i) {
      if constexpr (kFetch) prefetch(operands[i] + at);
#pragma GCC unroll 4
      for (std::size_t u = 0; u < kUnroll; ++u) {
        const Bits pairs = load(operands[i] + at + u * kStep);
        even[u] = rounded(even[u] + even_of(pairs));
        odd[u] = rounded(odd[u] + odd_of(pairs));
        signs[u] &= pairs;
      }
    }
    Bits sums[kUnroll];
    Words largest{};
#pragma GCC unroll 4
    for (std::size_t u = 0; u < kUnroll; ++u) {
      sums[u] =
          same_bits<Bits>(even[u]) >> 16 | same_bits<Bits>(odd[u]) | (signs[u] & 0x8000'8000u);
      const Words exponents = same_bits<Words>(sums[u]) & kExponent;
      largest = largest > exponents ? largest : exponents;
    }
    if (Isa::any_word_is(largest, kExponent)) return false;
#pragma GCC unroll 4
    for (std::size_t u = 0; u < kUnroll; ++u) {
      std::memcpy(dst + at + u * kStep, &sums[u], kStep);
      keep_order();
    }
    return true;
  }
};

template <typename Isa, Operation kOperation, ElementType kType>
using FoldOf = std::conditional_t<kOperation == Operation::sum && kType == ElementType::bfloat16,
                                  BfloatSum<Isa>, VectorFold<Isa, kOperation, kType>>;

}  // namespace tutti::reduction
