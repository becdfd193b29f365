// The reference implementation of the reductions, which every other kernel must equal bit by bit.
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "reduction/half_float.hpp"
#include "reduction/kernels.hpp"

namespace tutti::reduction {
namespace {

template <ElementType kType>
constexpr auto stored_type() {
  if constexpr (kType == ElementType::int8) return std::int8_t{};
  if constexpr (kType == ElementType::int16) return std::int16_t{};
  if constexpr (kType == ElementType::int32) return std::int32_t{};
  if constexpr (kType == ElementType::int64) return std::int64_t{};
  if constexpr (kType == ElementType::uint8) return std::uint8_t{};
  if constexpr (kType == ElementType::uint16) return std::uint16_t{};
  if constexpr (kType == ElementType::uint32) return std::uint32_t{};
  if constexpr (kType == ElementType::uint64) return std::uint64_t{};
  if constexpr (kType == ElementType::float16) return std::uint16_t{};
  if constexpr (kType == ElementType::bfloat16) return std::uint16_t{};
  if constexpr (kType == ElementType::float32) return float{};
  if constexpr (kType == ElementType::float64) return double{};
}

/// Converts an element between the type in which memory stores it and the type in which it is
/// computed.
template <ElementType kType>
struct Element {
  using Stored = decltype(stored_type<kType>());

  static auto read(const std::byte* from) {
    Stored stored;
    std::memcpy(&stored, from, sizeof stored);
    if constexpr (kType == ElementType::float16) {
      return half_to_float(stored);
    } else if constexpr (kType == ElementType::bfloat16) {
      return bfloat_to_float(stored);
    } else {
      return stored;
    }
  }
  using Value = decltype(read(nullptr));

  static void write(std::byte* to, Value value) {
    if constexpr (kType == ElementType::float16) {
      put(to, float_to_half(value));
    } else if constexpr (kType == ElementType::bfloat16) {
      put(to, float_to_bfloat(value));
    } else if constexpr (kType == ElementType::float32) {
      put(to, value != value ? kFloatNan : std::bit_cast<std::uint32_t>(value));
    } else if constexpr (kType == ElementType::float64) {
      put(to, value != value ? kDoubleNan : std::bit_cast<std::uint64_t>(value));
    } else {
      put(to, value);
    }
  }

 private:
  template <typename Bits>
  static void put(std::byte* to, Bits bits) {
    std::memcpy(to, &bits, sizeof bits);
  }
};

/// The minimum of IEEE 754-2019: a NaN wins, and -0 is below +0.
template <typename Value>
Value lesser(Value a, Value b) {
  if constexpr (std::is_floating_point_v<Value>) {
    if (a != a || b != b) return a != a ? a : b;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}

template <typename Value>
Value greater(Value a, Value b) {
  if constexpr (std::is_floating_point_v<Value>) {
    if (a != a || b != b) return a != a ? a : b;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

// Integers wrap around. They are computed as std::uint64_t, because small types would be promoted
// to int and overflow.
template <Operation kOperation, typename Value>
Value apply(Value a, Value b) {
  using Wide = std::conditional_t<std::is_floating_point_v<Value>, Value, std::uint64_t>;
  if constexpr (kOperation == Operation::sum) {
    return static_cast<Value>(static_cast<Wide>(a) + static_cast<Wide>(b));
  } else if constexpr (kOperation == Operation::prod) {
    return static_cast<Value>(static_cast<Wide>(a) * static_cast<Wide>(b));
  } else if constexpr (kOperation == Operation::min) {
    return lesser(a, b);
  } else if constexpr (kOperation == Operation::max) {
    return greater(a, b);
  } else if constexpr (kOperation == Operation::bit_and) {
    return static_cast<Value>(a & b);
  } else if constexpr (kOperation == Operation::bit_or) {
    return static_cast<Value>(a | b);
  } else {
    static_assert(kOperation == Operation::bit_xor);
    return static_cast<Value>(a ^ b);
  }
}

template <Operation kOperation, ElementType kType>
struct Fold {
  using One = Element<kType>;
  static constexpr std::size_t kBytes = element_bytes(kType);

  static void accumulate(std::byte* dst, const std::byte* src, std::size_t count) {
    for (std::size_t at = 0; at < count * kBytes; at += kBytes) {
      One::write(dst + at, apply<kOperation>(One::read(dst + at), One::read(src + at)));
    }
  }

  // Each step rounds to the element type, so that one fold of all operands gives the same bits as a
  // chain of folds at several ranks.
  static void combine(std::byte* dst, const std::byte* const* operands, std::size_t operand_count,
                      std::size_t count) {
    for (std::size_t at = 0; at < count * kBytes; at += kBytes) {
      std::byte partial[kBytes];
      std::memcpy(partial, operands[0] + at, kBytes);
      for (std::size_t i = 1; i < operand_count; ++i) {
        One::write(partial, apply<kOperation>(One::read(partial), One::read(operands[i] + at)));
      }
      std::memcpy(dst + at, partial, kBytes);
    }
  }
};

template <ElementType kType>
struct Single {
  using One = Element<kType>;
  static constexpr std::size_t kBytes = element_bytes(kType);

  static void scale(std::byte* dst, const std::byte* src, std::size_t count,
                    const std::byte* factor) {
    const auto by = One::read(factor);
    for (std::size_t at = 0; at < count * kBytes; at += kBytes) {
      One::write(dst + at, apply<Operation::prod>(One::read(src + at), by));
    }
  }

  // The quotient of integers is truncated. The computation uses 64 bits because a 32-bit divisor
  // may not fit into the element type.
  static void divide(std::byte* dst, std::size_t count, std::uint32_t divisor) {
    using Value = typename One::Value;
    using Wide = std::conditional_t<
        std::is_floating_point_v<Value>, Value,
        std::conditional_t<std::is_signed_v<Value>, std::int64_t, std::uint64_t>>;
    for (std::size_t at = 0; at < count * kBytes; at += kBytes) {
      const auto value = static_cast<Wide>(One::read(dst + at));
      One::write(dst + at, static_cast<Value>(value / static_cast<Wide>(divisor)));
    }
  }
};

bool always() { return true; }

constexpr KernelTable kTable = KernelTableMaker<Fold, Single>::make("scalar", always);

}  // namespace

const KernelTable& scalar_kernels() { return kTable; }

}  // namespace tutti::reduction
