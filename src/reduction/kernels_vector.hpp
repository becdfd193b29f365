// The loops over whole registers, shared by kernels_avx2.cpp and kernels_avx512.cpp, for these two
// files only.
//
// `Isa` is a type local to the including file, so the linker never merges code compiled for
// different instruction sets. It defines the register width (kBytes) and the conversions between
// float16 and float32 (widen_half, narrow_half).
//
// Lanes<Isa, operation, type> defines the form of the elements in registers:
//   integers          the elements; sums and products wrap, so signedness does not matter
//   float32, float64  the elements; a NaN is made canonical when it is stored
//   bfloat16          two registers of float32, for the even and the odd elements: no shuffles
//   float16           one register of float32, rounded back to 11 bits after each step
//   min and max of    the bits, mapped to integers that sort like the numbers; a NaN sorts below
//   floats            the smallest or above the largest of them
#pragma once

#include <cstring>
#include <limits>
#include <type_traits>

#include "reduction/half_float.hpp"
#include "reduction/kernels.hpp"

namespace tutti::reduction {

template <typename Element, std::size_t kBytes>
struct RegisterOf {
  typedef Element type __attribute__((vector_size(kBytes)));
};
template <typename Element, std::size_t kBytes>
using Register = typename RegisterOf<Element, kBytes>::type;

template <typename To, typename From>
To same_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <std::size_t kBytes>
constexpr auto unsigned_of_size() {
  if constexpr (kBytes == 1) return std::uint8_t{};
  if constexpr (kBytes == 2) return std::uint16_t{};
  if constexpr (kBytes == 4) return std::uint32_t{};
  if constexpr (kBytes == 8) return std::uint64_t{};
}
template <std::size_t kBytes>
using UnsignedOfSize = decltype(unsigned_of_size<kBytes>());

constexpr bool is_order(Operation operation) {
  return operation == Operation::min || operation == Operation::max;
}
constexpr bool is_signed_integer(ElementType type) { return type <= ElementType::int64; }

/// Register form of elements that need no conversion between memory and register.
template <typename Isa, typename Element>
struct PlainLanes {
  using Value = Register<Element, Isa::kBytes>;
  static constexpr std::size_t kStepBytes = Isa::kBytes;
  static Value load(const std::byte* from) {
    Value value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  static void store(std::byte* to, const Value& value) { std::memcpy(to, &value, sizeof value); }
  static Value all(Element element) { return element - Value{}; }
};

template <typename Isa, Operation kOperation, ElementType kType>
struct IntegerLanes
    : PlainLanes<Isa, std::conditional_t<is_order(kOperation) && is_signed_integer(kType),
                                         std::make_signed_t<UnsignedOfSize<element_bytes(kType)>>,
                                         UnsignedOfSize<element_bytes(kType)>>> {
  using Value =
      Register<std::conditional_t<is_order(kOperation) && is_signed_integer(kType),
                                  std::make_signed_t<UnsignedOfSize<element_bytes(kType)>>,
                                  UnsignedOfSize<element_bytes(kType)>>,
               Isa::kBytes>;
  static Value apply(const Value& a, const Value& b) {
    if constexpr (kOperation == Operation::sum) return a + b;
    if constexpr (kOperation == Operation::prod) return a * b;
    if constexpr (kOperation == Operation::min) return a < b ? a : b;
    if constexpr (kOperation == Operation::max) return a > b ? a : b;
    if constexpr (kOperation == Operation::bit_and) return a & b;
    if constexpr (kOperation == Operation::bit_or) return a | b;
    if constexpr (kOperation == Operation::bit_xor) return a ^ b;
  }
};

template <typename Real>
inline constexpr Real kCanonicalNan = sizeof(Real) == 4
                                          ? static_cast<Real>(std::bit_cast<float>(kFloatNan))
                                          : static_cast<Real>(std::bit_cast<double>(kDoubleNan));

template <typename Isa, Operation kOperation, typename Real>
struct RealLanes : PlainLanes<Isa, Real> {
  using Value = Register<Real, Isa::kBytes>;
  static Value apply(const Value& a, const Value& b) {
    if constexpr (kOperation == Operation::sum) return a + b;
    if constexpr (kOperation == Operation::prod) return a * b;
  }
  static Value divide(const Value& a, Real divisor) { return a / divisor; }
  static void store(std::byte* to, const Value& value) {
    const Value nan = kCanonicalNan<Real> - Value{};
    PlainLanes<Isa, Real>::store(to, value == value ? value : nan);
  }
};

template <typename Isa, Operation kOperation>
struct BfloatLanes {
  using Bits = Register<std::uint32_t, Isa::kBytes>;
  using Reals = Register<float, Isa::kBytes>;
  struct Value {
    Reals even;
    Reals odd;
  };
  static constexpr std::size_t kStepBytes = Isa::kBytes;

  static Value load(const std::byte* from) {
    Bits pairs;
    std::memcpy(&pairs, from, sizeof pairs);
    return {same_bits<Reals>(pairs << 16), same_bits<Reals>(pairs & 0xffff'0000u)};
  }
  static void store(std::byte* to, const Value& value) {
    const Bits pairs = canonical(value.even) >> 16 | canonical(value.odd);
    std::memcpy(to, &pairs, sizeof pairs);
  }
  static Value apply(const Value& a, const Value& b) {
    if constexpr (kOperation == Operation::sum) {
      return {rounded(a.even + b.even), rounded(a.odd + b.odd)};
    } else {
      return {rounded(a.even * b.even), rounded(a.odd * b.odd)};
    }
  }
  static Value divide(const Value& a, float divisor) {
    return {rounded(a.even / divisor), rounded(a.odd / divisor)};
  }

 private:
  // A NaN has a zero lower half here, because it comes from a bfloat16 operand or from an operation
  // on infinities. Rounding therefore carries nothing into the upper half, and the result is still
  // a NaN.
  static Reals rounded(const Reals& exact) {
    const Bits bits = same_bits<Bits>(exact);
    return same_bits<Reals>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff'0000u);
  }
  static Bits canonical(const Reals& value) {
    const Bits nan = kFloatNan - Bits{};
    return value == value ? same_bits<Bits>(value) : nan;
  }
};

template <typename Isa, Operation kOperation>
struct HalfLanes {
  using Value = Register<float, Isa::kBytes>;
  static constexpr std::size_t kStepBytes = Isa::kBytes / 2;

  static Value load(const std::byte* from) { return Isa::widen_half(from); }
  static void store(std::byte* to, const Value& value) {
    const Value nan = kCanonicalNan<float> - Value{};
    Isa::narrow_half(to, value == value ? value : nan);
  }
  static Value apply(const Value& a, const Value& b) {
    if constexpr (kOperation == Operation::sum) return Isa::round_to_half(a + b);
    if constexpr (kOperation == Operation::prod) return Isa::round_to_half(a * b);
  }
  static Value divide(const Value& a, float divisor) { return a / divisor; }
};

/// Maps floats to integers with the same order: all bits of a negative number except the sign are
/// flipped.
template <typename Isa, Operation kOperation, ElementType kType>
struct OrderLanes {
  using Key = std::make_signed_t<UnsignedOfSize<element_bytes(kType)>>;
  using Value = Register<Key, Isa::kBytes>;
  using Plain = PlainLanes<Isa, Key>;
  static constexpr std::size_t kStepBytes = Isa::kBytes;
  static constexpr Key kMagnitude = std::numeric_limits<Key>::max();
  static constexpr Key kInfinity = kType == ElementType::float16    ? Key{0x7c00}
                                   : kType == ElementType::bfloat16 ? Key{0x7f80}
                                   : kType == ElementType::float32
                                       ? static_cast<Key>(0x7f80'0000)
                                       : static_cast<Key>(0x7ff0'0000'0000'0000);
  static constexpr Key kNan = kType == ElementType::float16    ? static_cast<Key>(kHalfNan)
                              : kType == ElementType::bfloat16 ? static_cast<Key>(kBfloatNan)
                              : kType == ElementType::float32  ? static_cast<Key>(kFloatNan)
                                                               : static_cast<Key>(kDoubleNan);
  /// The integer to which NaN is mapped. It wins every comparison, and no number is mapped to it.
  static constexpr Key kWinner = kOperation == Operation::min ? std::numeric_limits<Key>::min()
                                                              : std::numeric_limits<Key>::max();

  static Value flip(const Value& bits) { return bits ^ ((bits < 0) & kMagnitude); }
  static Value load(const std::byte* from) {
    const Value bits = Plain::load(from);
    const Value winner = kWinner - Value{};
    return (bits & kMagnitude) > kInfinity ? winner : flip(bits);
  }
  static void store(std::byte* to, const Value& key) {
    const Value nan = kNan - Value{};
    Plain::store(to, key == kWinner ? nan : flip(key));
  }
  static Value apply(const Value& a, const Value& b) {
    if constexpr (kOperation == Operation::min) return a < b ? a : b;
    if constexpr (kOperation == Operation::max) return a > b ? a : b;
  }
};

template <typename Isa, Operation kOperation, ElementType kType>
constexpr auto lanes() {
  if constexpr (!is_float(kType)) {
    return IntegerLanes<Isa, kOperation, kType>{};
  } else if constexpr (is_order(kOperation)) {
    return OrderLanes<Isa, kOperation, kType>{};
  } else if constexpr (kType == ElementType::float16) {
    return HalfLanes<Isa, kOperation>{};
  } else if constexpr (kType == ElementType::bfloat16) {
    return BfloatLanes<Isa, kOperation>{};
  } else if constexpr (kType == ElementType::float32) {
    return RealLanes<Isa, kOperation, float>{};
  } else {
    return RealLanes<Isa, kOperation, double>{};
  }
}

/// Keeps the compiler from reordering stores. If cache lines are written in ascending order, the
/// core need not read them first.
inline void keep_order() { asm volatile("" : : : "memory"); }

/// Covers the bytes from `at` to `end`: calls `several` for kUnroll registers at a time, then
/// `last` for each remaining register. `last` also gets the number of bytes, because the last
/// register may be filled only in part.
template <typename Lanes, std::size_t kUnroll, typename Several, typename Last>
void walk(std::size_t at, std::size_t end, const Several& several, const Last& last) {
  constexpr std::size_t kStep = Lanes::kStepBytes;
  for (; at + kUnroll * kStep <= end; at += kUnroll * kStep) several(at);
  for (; at < end; at += kStep) last(at, end - at < kStep ? end - at : kStep);
}

/// Loads the first `bytes` bytes at `from` into a register and fills the rest with zeros.
template <typename Lanes>
typename Lanes::Value load_some(const std::byte* from, std::size_t bytes) {
  std::byte whole[Lanes::kStepBytes] = {};
  std::memcpy(whole, from, bytes);
  return Lanes::load(whole);
}

template <typename Lanes>
void store_some(std::byte* to, const typename Lanes::Value& value, std::size_t bytes) {
  std::byte whole[Lanes::kStepBytes];
  Lanes::store(whole, value);
  std::memcpy(to, whole, bytes);
}

template <typename Isa, Operation kOperation, ElementType kType>
struct VectorFold {
  using Lanes = decltype(lanes<Isa, kOperation, kType>());
  using Value = typename Lanes::Value;
  static constexpr std::size_t kBytes = element_bytes(kType);
  static constexpr std::size_t kStep = Lanes::kStepBytes;
  static constexpr std::size_t kUnroll = 4;

  static void accumulate(std::byte* dst, const std::byte* src, std::size_t count) {
    const auto several = [=](std::size_t at) {
      for (std::size_t u = at; u < at + kUnroll * kStep; u += kStep) {
        Lanes::store(dst + u, Lanes::apply(Lanes::load(dst + u), Lanes::load(src + u)));
      }
    };
    const auto last = [=](std::size_t at, std::size_t bytes) {
      const Value a = load_some<Lanes>(dst + at, bytes);
      store_some<Lanes>(dst + at, Lanes::apply(a, load_some<Lanes>(src + at, bytes)), bytes);
    };
    walk<Lanes, kUnroll>(0, count * kBytes, several, last);
  }

  static void combine(std::byte* dst, const std::byte* const* operands, std::size_t operand_count,
                      std::size_t count) {
    combine_range(dst, operands, operand_count, 0, count * kBytes);
  }

  /// Combines the bytes from `begin` to `end` of each operand.
  static void combine_range(std::byte* dst, const std::byte* const* operands,
                            std::size_t operand_count, std::size_t begin, std::size_t end) {
    const auto several = [=](std::size_t at) {
      Value folded[kUnroll];
      for (std::size_t u = 0; u < kUnroll; ++u) {
        folded[u] = Lanes::load(operands[0] + at + u * kStep);
      }
      for (std::size_t i = 1; i < operand_count; ++i) {
        const std::byte* operand = operands[i] + at;
        for (std::size_t u = 0; u < kUnroll; ++u) {
          folded[u] = Lanes::apply(folded[u], Lanes::load(operand + u * kStep));
        }
      }
      for (std::size_t u = 0; u < kUnroll; ++u) {
        Lanes::store(dst + at + u * kStep, folded[u]);
        keep_order();
      }
    };
    const auto last = [=](std::size_t at, std::size_t bytes) {
      Value folded = load_some<Lanes>(operands[0] + at, bytes);
      for (std::size_t i = 1; i < operand_count; ++i) {
        folded = Lanes::apply(folded, load_some<Lanes>(operands[i] + at, bytes));
      }
      store_some<Lanes>(dst + at, folded, bytes);
    };
    walk<Lanes, kUnroll>(begin, end, several, last);
  }
};

template <typename Isa, ElementType kType>
struct VectorSingle {
  using Lanes = decltype(lanes<Isa, Operation::prod, kType>());
  using Value = typename Lanes::Value;
  static constexpr std::size_t kBytes = element_bytes(kType);

  template <typename Change>
  static void change(std::byte* dst, const std::byte* src, std::size_t count,
                     const Change& changed) {
    const auto one = [=](std::size_t at) {
      Lanes::store(dst + at, changed(Lanes::load(src + at)));
    };
    const auto last = [=](std::size_t at, std::size_t bytes) {
      store_some<Lanes>(dst + at, changed(load_some<Lanes>(src + at, bytes)), bytes);
    };
    walk<Lanes, 1>(0, count * kBytes, one, last);
  }

  static void scale(std::byte* dst, const std::byte* src, std::size_t count,
                    const std::byte* factor) {
    std::byte repeated[Lanes::kStepBytes];
    for (std::size_t at = 0; at < sizeof repeated; at += kBytes) {
      std::memcpy(repeated + at, factor, kBytes);
    }
    const Value by = Lanes::load(repeated);
    change(dst, src, count, [&](const Value& value) { return Lanes::apply(value, by); });
  }

  static void divide(std::byte* dst, std::size_t count, std::uint32_t divisor) {
    if constexpr (is_float(kType)) {
      using Real = std::conditional_t<kType == ElementType::float64, double, float>;
      const auto by = static_cast<Real>(divisor);
      change(dst, dst, count, [=](const Value& value) { return Lanes::divide(value, by); });
    } else {
      // Vector instructions cannot divide integers, so the scalar kernel divides them.
      scalar_kernels().divide[static_cast<std::size_t>(kType)](dst, count, divisor);
    }
  }
};

}  // namespace tutti::reduction
