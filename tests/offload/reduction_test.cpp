#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "reduction/half_float.hpp"
#include "reduction/reducer.hpp"

namespace tutti::reduction {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kCounts[] = {0,  1,  2,  3,  5,   7,   8,   13,  15,  16,   17,
                                   31, 33, 63, 65, 127, 129, 255, 257, 511, 1023, 1031};
constexpr std::size_t kGuardBytes = 64;
constexpr auto kGuard = std::byte{0xa5};

std::vector<ElementType> types() {
  std::vector<ElementType> all;
  for (std::size_t i = 0; i < kElementTypes; ++i) all.push_back(static_cast<ElementType>(i));
  return all;
}

/// One reducer for every supported pair of operation and type.
std::vector<Reducer> reducers() {
  std::vector<Reducer> all;
  for (std::size_t o = 0; o < kOperations; ++o) {
    for (const ElementType type : types()) {
      const auto reducer = Reducer::create(static_cast<Operation>(o), type);
      if (reducer) all.push_back(*reducer);
    }
  }
  return all;
}

Reducer scalar(const Reducer& reducer) { return reducer.with_implementation("scalar").value(); }

std::string name_of(const Reducer& reducer) {
  return std::string(to_string(reducer.operation())) + " of " + to_string(reducer.type());
}

/// The bits of a special value of a float type: a NaN, infinity, zero, a denormal or the largest
/// number, with either sign.
std::uint64_t special_bits(ElementType type, std::uint64_t which) {
  const bool negative = (which & 1) != 0;
  const auto pick = [&](std::uint64_t sign, std::uint64_t infinity) {
    const std::uint64_t all[] = {infinity | 1, infinity | (infinity >> 1), infinity, 0, 1,
                                 infinity - 1};
    return all[which / 2 % 6] | (negative ? sign : 0);
  };
  if (type == ElementType::float16) return pick(0x8000, 0x7c00);
  if (type == ElementType::bfloat16) return pick(0x8000, 0x7f80);
  if (type == ElementType::float32) return pick(0x8000'0000, 0x7f80'0000);
  return pick(std::uint64_t{1} << 63, std::uint64_t{0x7ff0} << 48);
}

/// A vector of random elements. Floats have similar magnitudes, except that about one in eight is a
/// special value.
Bytes elements(ElementType type, std::size_t count, std::uint64_t seed) {
  const std::size_t bytes = element_bytes(type);
  Bytes made(count * bytes);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = draw(seed, i);
    if (is_float(type)) {
      const bool special = draw(seed, i, 1) % 8 == 0;
      const float real = static_cast<float>(static_cast<std::int64_t>(bits % 4001) - 2000) / 37.0f;
      if (special) bits = special_bits(type, draw(seed, i, 2));
      if (!special && type == ElementType::float16) bits = float_to_half(real);
      if (!special && type == ElementType::bfloat16) bits = float_to_bfloat(real);
      if (!special && type == ElementType::float32) bits = std::bit_cast<std::uint32_t>(real);
      if (!special && type == ElementType::float64) {
        bits = std::bit_cast<std::uint64_t>(static_cast<double>(real) / 7.0);
      }
    }
    std::memcpy(made.data() + i * bytes, &bits, bytes);
  }
  return made;
}

/// A copy of a vector that begins `offset` bytes behind an aligned address and is followed by guard
/// bytes.
class Placed {
 public:
  Placed(const Bytes& content, std::size_t offset)
      : offset_(offset), size_(content.size()), memory_(offset + size_ + kGuardBytes, kGuard) {
    if (size_ != 0) std::memcpy(data(), content.data(), size_);
  }
  std::byte* data() { return memory_.data() + offset_; }
  Bytes content() const {
    return Bytes(memory_.begin() + static_cast<std::ptrdiff_t>(offset_),
                 memory_.begin() + static_cast<std::ptrdiff_t>(offset_ + size_));
  }
  bool guards_hold() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if ((i < offset_ || i >= offset_ + size_) && memory_[i] != kGuard) return false;
    }
    return true;
  }

 private:
  std::size_t offset_;
  std::size_t size_;
  Bytes memory_;
};

template <typename Value>
Value read(const Bytes& bytes, std::size_t i = 0) {
  Value value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

template <typename Value>
Bytes bytes_of(std::initializer_list<Value> values) {
  Bytes bytes(values.size() * sizeof(Value));
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

Bytes accumulated(const Reducer& reducer, Bytes dst, const Bytes& src) {
  reducer.accumulate(dst.data(), src.data(), dst.size() / element_bytes(reducer.type()));
  return dst;
}

TEST(Reducer, AccumulateEqualsTheReferenceForEveryCountAndAlignment) {
  for (const Reducer& reducer : reducers()) {
    for (const std::string_view implementation : Reducer::implementations()) {
      const Reducer tested = reducer.with_implementation(implementation).value();
      for (const std::size_t count : kCounts) {
        const Bytes a = elements(reducer.type(), count, 1);
        const Bytes b = elements(reducer.type(), count, 2);
        const Bytes expected = accumulated(scalar(reducer), a, b);
        for (const std::size_t offset : {0u, 1u, 6u}) {
          Placed dst(a, offset);
          Placed src(b, 7 - offset);
          tested.accumulate(dst.data(), src.data(), count);
          ASSERT_EQ(dst.content(), expected) << name_of(reducer) << " by " << implementation << ", "
                                             << count << " elements at offset " << offset;
          ASSERT_TRUE(dst.guards_hold()) << name_of(reducer) << " by " << implementation;
          ASSERT_EQ(src.content(), b);
        }
      }
    }
  }
}

TEST(Reducer, Combine_equalsAccumulatingTheOperandsOneByOne) {
  for (const Reducer& reducer : reducers()) {
    for (const std::string_view implementation : Reducer::implementations()) {
      const Reducer tested = reducer.with_implementation(implementation).value();
      for (const std::size_t operand_count : {2u, 3u, 5u, 9u, 17u}) {
        // The implementations work in blocks, and a vector of `long_count` elements is longer than
        // any block. It is tested only with 9 operands, which are more than one pass can combine.
        const std::size_t long_count = 33'000 / element_bytes(reducer.type()) + 7;
        for (const std::size_t count :
             {std::size_t{1}, std::size_t{15}, std::size_t{257}, std::size_t{1031}, long_count}) {
          if (count == long_count && operand_count != 9) continue;
          std::vector<Placed> operands;
          std::vector<const std::byte*> pointers;
          Bytes expected = elements(reducer.type(), count, 0);
          for (std::size_t i = 0; i < operand_count; ++i) {
            const Bytes operand = elements(reducer.type(), count, i);
            operands.emplace_back(operand, i % 5);
            if (i != 0) expected = accumulated(scalar(reducer), expected, operand);
          }
          for (Placed& operand : operands) pointers.push_back(operand.data());
          Placed dst(Bytes(expected.size()), 3);
          tested.combine(dst.data(), pointers, count);
          ASSERT_EQ(dst.content(), expected) << name_of(reducer) << " by " << implementation << ", "
                                             << operand_count << " operands of " << count;
          ASSERT_TRUE(dst.guards_hold());
          // The result may also be written over one of the operands.
          const std::size_t own = operand_count / 2 + 1 < operand_count ? operand_count / 2 + 1 : 0;
          tested.combine(operands[own].data(), pointers, count);
          ASSERT_EQ(operands[own].content(), expected) << name_of(reducer) << " in place";
        }
      }
    }
  }
}

TEST(Reducer, SingleOperand_isCopied_andAnEmptyListLeavesTheResultUnchanged) {
  const Reducer sum = Reducer::create(Operation::sum, ElementType::float32).value();
  const Bytes signalling = bytes_of<std::uint32_t>({0xff80'0001, 0x8000'0000});
  Bytes dst(8);
  const std::byte* operand = signalling.data();
  sum.combine(dst.data(), {&operand, 1}, 2);
  EXPECT_EQ(dst, signalling);
  sum.combine(dst.data(), {}, 2);
  EXPECT_EQ(dst, signalling);
}

TEST(Reducer, OrderOfOperands_changesTheResultOfAFloatSum) {
  const Reducer sum = Reducer::create(Operation::sum, ElementType::float32).value();
  const Bytes big = bytes_of({1e8f});
  const Bytes small = bytes_of({3.0f});
  const Bytes negative = bytes_of({-1e8f});
  const auto fold = [&](std::vector<const std::byte*> operands) {
    Bytes dst(4);
    sum.combine(dst.data(), operands, 1);
    return read<float>(dst);
  };
  EXPECT_EQ(fold({big.data(), small.data(), negative.data()}), 0.0f);
  EXPECT_EQ(fold({big.data(), negative.data(), small.data()}), 3.0f);
}

TEST(Reducer, UnsupportedOperationForAType_isNamedInTheError) {
  for (const Operation operation : {Operation::bit_and, Operation::bit_or, Operation::bit_xor}) {
    for (const ElementType type : types()) {
      const auto reducer = Reducer::create(operation, type);
      ASSERT_EQ(reducer.ok(), !is_float(type));
      if (reducer) continue;
      EXPECT_EQ(reducer.status().code(), Code::unsupported);
      EXPECT_NE(reducer.status().message().find(to_string(operation)), std::string::npos);
      EXPECT_NE(reducer.status().message().find(to_string(type)), std::string::npos);
    }
  }
  const auto unknown = Reducer::create(static_cast<Operation>(9), ElementType::int8);
  EXPECT_EQ(unknown.status().code(), Code::invalid_argument);
  const Reducer sum = Reducer::create(Operation::sum, ElementType::int8).value();
  EXPECT_EQ(sum.with_implementation("abacus").status().code(), Code::invalid_argument);
}

template <typename Value>
void expect_accumulated(Operation operation, ElementType type, Value a, Value b, Value expected) {
  const Reducer reducer = Reducer::create(operation, type).value();
  for (const std::string_view implementation : Reducer::implementations()) {
    const Reducer tested = reducer.with_implementation(implementation).value();
    const Bytes result = accumulated(tested, bytes_of({a}), bytes_of({b}));
    EXPECT_EQ(result, bytes_of({expected}))
        << name_of(reducer) << " by " << implementation << " of " << +a << " and " << +b << ": "
        << +read<Value>(result) << ", not " << +expected;
  }
}

TEST(Reducer, IntegerSums_wrapOnOverflow) {
  expect_accumulated<std::int8_t>(Operation::sum, ElementType::int8, 127, 1, -128);
  expect_accumulated<std::int16_t>(Operation::prod, ElementType::int16, 300, 300, 24464);
  expect_accumulated<std::uint16_t>(Operation::prod, ElementType::uint16, 65535, 65535, 1);
  expect_accumulated<std::int32_t>(Operation::sum, ElementType::int32, INT32_MAX, 1, INT32_MIN);
  expect_accumulated<std::int64_t>(Operation::prod, ElementType::int64, INT64_MAX, 2, -2);
  expect_accumulated<std::uint64_t>(Operation::sum, ElementType::uint64, UINT64_MAX, 2, 1);
}

TEST(Reducer, SignedIntegers_areComparedWithTheirSign) {
  expect_accumulated<std::int8_t>(Operation::min, ElementType::int8, -128, 127, -128);
  expect_accumulated<std::uint8_t>(Operation::min, ElementType::uint8, 128, 127, 127);
  expect_accumulated<std::int64_t>(Operation::max, ElementType::int64, INT64_MIN, -1, -1);
  expect_accumulated<std::uint64_t>(Operation::max, ElementType::uint64, UINT64_MAX, 1, UINT64_MAX);
  expect_accumulated<std::uint32_t>(Operation::bit_xor, ElementType::uint32, 0xff00, 0x0ff0,
                                    0xf0f0);
  expect_accumulated<std::int16_t>(Operation::bit_and, ElementType::int16, -2, 7, 6);
  expect_accumulated<std::int16_t>(Operation::bit_or, ElementType::int16, -8, 3, -5);
}

/// The special values of a float type, as bits.
struct Specials {
  ElementType type;
  std::uint64_t nan, other_nan, infinity, sign, one;
};

constexpr Specials kSpecials[] = {
    {ElementType::float16, kHalfNan, 0xfc01, 0x7c00, 0x8000, 0x3c00},
    {ElementType::bfloat16, kBfloatNan, 0xff81, 0x7f80, 0x8000, 0x3f80},
    {ElementType::float32, kFloatNan, 0xff80'0001, 0x7f80'0000, 0x8000'0000, 0x3f80'0000},
    {ElementType::float64, kDoubleNan, std::uint64_t{0xfff0'0000'0000'0001},
     std::uint64_t{0x7ff0} << 48, std::uint64_t{1} << 63, std::uint64_t{0x3ff0} << 48}};

void expect_bits(const Specials& of, Operation operation, std::uint64_t a, std::uint64_t b,
                 std::uint64_t expected) {
  const Reducer reducer = Reducer::create(operation, of.type).value();
  const std::size_t bytes = element_bytes(of.type);
  for (const std::string_view implementation : Reducer::implementations()) {
    const Reducer tested = reducer.with_implementation(implementation).value();
    std::uint64_t result = a;
    tested.accumulate(reinterpret_cast<std::byte*>(&result), reinterpret_cast<std::byte*>(&b), 1);
    EXPECT_EQ(result & (~std::uint64_t{0} >> (64 - 8 * bytes)), expected)
        << std::hex << name_of(reducer) << " by " << implementation << " of " << a << " and " << b;
  }
}

TEST(Reducer, ResultWithANanOperandIsTheCanonicalNan) {
  for (const Specials& of : kSpecials) {
    const std::uint64_t minus_infinity = of.infinity | of.sign;
    for (const Operation operation :
         {Operation::sum, Operation::prod, Operation::min, Operation::max}) {
      for (const std::uint64_t nan : {of.nan, of.other_nan}) {
        expect_bits(of, operation, nan, of.one, of.nan);
        expect_bits(of, operation, of.one, nan, of.nan);
        expect_bits(of, operation, nan, nan, of.nan);
        expect_bits(of, operation, minus_infinity, nan, of.nan);
        expect_bits(of, operation, nan, of.infinity, of.nan);
      }
    }
    expect_bits(of, Operation::sum, of.infinity, minus_infinity, of.nan);
    expect_bits(of, Operation::prod, of.infinity, 0, of.nan);
  }
}

TEST(Reducer, ReductionsOfZerosInfinitiesAndDenormals_areExact) {
  for (const Specials& of : kSpecials) {
    const std::uint64_t minus_infinity = of.infinity | of.sign;
    const std::uint64_t largest = of.infinity - 1;
    expect_bits(of, Operation::min, 0, of.sign, of.sign);
    expect_bits(of, Operation::min, of.sign, 0, of.sign);
    expect_bits(of, Operation::max, 0, of.sign, 0);
    expect_bits(of, Operation::max, of.sign, 0, 0);
    expect_bits(of, Operation::sum, of.sign, of.sign, of.sign);
    expect_bits(of, Operation::sum, of.sign, 0, 0);
    expect_bits(of, Operation::prod, of.one | of.sign, 0, of.sign);
    expect_bits(of, Operation::min, minus_infinity, of.one, minus_infinity);
    expect_bits(of, Operation::max, minus_infinity, of.one, of.one);
    expect_bits(of, Operation::sum, of.infinity, of.one, of.infinity);
    expect_bits(of, Operation::sum, largest, largest, of.infinity);
    expect_bits(of, Operation::sum, 1, 2, 3);
    expect_bits(of, Operation::sum, 1, 1 | of.sign, 0);
    expect_bits(of, Operation::prod, 3, of.one, 3);
    expect_bits(of, Operation::max, 1 | of.sign, 2 | of.sign, 1 | of.sign);
    expect_bits(of, Operation::min, 1, 2, 1);
  }
}

TEST(Reducer, Float16Sum_isRoundedAfterEachAddition) {
  // Two float16 additions of 2^-11 to 1 give 1, because each sum lies midway between two values and
  // rounds to the even value, 1. A float32 sum that is rounded only at the end would give 1 +
  // 2^-10.
  const Reducer sum = Reducer::create(Operation::sum, ElementType::float16).value();
  const Bytes one = bytes_of<std::uint16_t>({0x3c00});
  const Bytes half_ulp = bytes_of<std::uint16_t>({float_to_half(0x1p-11f)});
  for (const std::string_view implementation : Reducer::implementations()) {
    const std::byte* operands[] = {one.data(), half_ulp.data(), half_ulp.data()};
    Bytes dst(2);
    sum.with_implementation(implementation).value().combine(dst.data(), operands, 1);
    EXPECT_EQ(dst, one) << implementation;
  }
}

/// Adds the operands by each implementation and expects the bits of the reference.
void expect_bfloat_sum(const std::vector<Bytes>& operands, const std::string& what) {
  const Reducer sum = Reducer::create(Operation::sum, ElementType::bfloat16).value();
  std::vector<const std::byte*> pointers;
  for (const Bytes& operand : operands) pointers.push_back(operand.data());
  Bytes expected(operands[0].size());
  scalar(sum).combine(expected.data(), pointers, expected.size() / 2);
  for (const std::string_view implementation : Reducer::implementations()) {
    Bytes result(expected.size());
    sum.with_implementation(implementation)
        .value()
        .combine(result.data(), pointers, result.size() / 2);
    for (std::size_t i = 0; i < result.size() / 2; ++i) {
      ASSERT_EQ(read<std::uint16_t>(result, i), read<std::uint16_t>(expected, i))
          << implementation << ", " << what << ", element " << i;
    }
  }
}

// A vector register takes a faster path if it holds no infinity, no NaN and no huge number.
// Neighbouring elements have similar magnitudes, so that the test also takes this path.
TEST(Reducer, BfloatSumsEqualTheReferenceForEveryValue) {
  Bytes every(2 * 0x10000);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    std::memcpy(every.data() + 2 * bits, &bits, 2);
  }
  // The second operand covers each exponent with four fractions: the two least, a middle one and
  // the largest.
  for (std::uint32_t exponent = 0; exponent < 0x100; ++exponent) {
    for (const std::uint32_t fraction : {0x00u, 0x01u, 0x55u, 0x7fu}) {
      const std::uint32_t other = (exponent & 1) << 15 | exponent << 7 | fraction;
      Bytes same(every.size());
      for (std::size_t at = 0; at < same.size(); at += 2) std::memcpy(same.data() + at, &other, 2);
      expect_bfloat_sum({every, same}, "every value with " + std::to_string(other));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Reducer, BfloatSumsOfManyOperands_equalTheReferenceAtEverySize) {
  // The smallest exponent of an operand is `lowest`. Some operands are zeros of either sign, and
  // some are equal in magnitude and opposite in sign, so that they cancel.
  const auto numbers = [](std::uint32_t lowest, std::uint32_t exponents, std::uint64_t seed) {
    Bytes made(2 * 2048);
    for (std::size_t i = 0; i < 2048; ++i) {
      const std::uint64_t random = draw(seed, i);
      const auto sign = static_cast<std::uint32_t>(i / 256 % 2 == 0 ? random & 1 : 1);
      std::uint32_t bits = (lowest + static_cast<std::uint32_t>(random >> 8) % exponents) << 7;
      bits |= static_cast<std::uint32_t>(random >> 48) & (i / 512 % 2 == 0 ? 0x7f : 0x01);
      if (random >> 60 == 0 || i % 64 == 9) bits = 0;
      bits |= sign << 15;
      std::memcpy(made.data() + 2 * i, &bits, 2);
    }
    return made;
  };
  for (const std::uint32_t lowest : {0u, 1u, 8u, 100u, 127u, 200u, 235u, 236u, 239u, 245u, 254u}) {
    for (const std::uint32_t exponents : {1u, 3u, 12u, 40u}) {
      if (lowest + exponents > 256) continue;
      for (const std::size_t operand_count : {2u, 3u, 4u, 5u, 8u, 9u, 16u, 17u, 31u}) {
        std::vector<Bytes> operands;
        for (std::size_t i = 0; i < operand_count; ++i) {
          operands.push_back(numbers(lowest, exponents, draw(lowest, exponents, i)));
        }
        expect_bfloat_sum(operands, std::to_string(operand_count) + " with exponents from " +
                                        std::to_string(lowest));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Reducer, MultiplyAndAddAreNotFused) {
  // (1 + 2^-12)^2 is 1 + 2^-11 + 2^-24. A separate multiplication rounds the term 2^-24 away; a
  // fused multiply-add would keep it.
  const Reducer sum = Reducer::create(Operation::premultiplied_sum, ElementType::float32).value();
  const float value = 1.0f + 0x1p-12f;
  const Bytes a = bytes_of({-(1.0f + 0x1p-11f)});
  const Bytes b = bytes_of({value});
  const Bytes factors = bytes_of({1.0f, value});
  for (const std::string_view implementation : Reducer::implementations()) {
    const std::byte* operands[] = {a.data(), b.data()};
    Bytes dst(4);
    sum.with_implementation(implementation).value().reduce(dst.data(), operands, 1, factors.data());
    EXPECT_EQ(read<float>(dst), 0.0f) << implementation;
  }
}

// Otherwise the tests of all implementations would compare the scalar one with itself.
TEST(Reducer, Implementations_areThoseOfThisProcessor_fastestFirst) {
  std::vector<std::string_view> expected;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    expected.push_back("avx512");
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) expected.push_back("avx2");
#endif
  expected.push_back("scalar");
  EXPECT_EQ(Reducer::implementations(), expected);
  const auto sum = Reducer::create(Operation::sum, ElementType::float32);
  ASSERT_TRUE(sum.ok()) << sum.status().to_string();
  EXPECT_EQ(sum->implementation(), expected.front());
}

TEST(Reducer, Average_dividesTheSumOnce) {
  const auto average = [](ElementType type, Bytes sum, std::uint32_t contributions) {
    const Reducer reducer = Reducer::create(Operation::average, type).value();
    Bytes reference = sum;
    scalar(reducer).finish(reference.data(), sum.size() / element_bytes(type), contributions);
    for (const std::string_view implementation : Reducer::implementations()) {
      Bytes result = sum;
      reducer.with_implementation(implementation)
          .value()
          .finish(result.data(), sum.size() / element_bytes(type), contributions);
      EXPECT_EQ(result, reference) << implementation;
    }
    return reference;
  };
  EXPECT_EQ(average(ElementType::int32, bytes_of<std::int32_t>({-7, 7, 5}), 2),
            bytes_of<std::int32_t>({-3, 3, 2}));
  EXPECT_EQ(average(ElementType::uint8, bytes_of<std::uint8_t>({255}), 300),
            bytes_of<std::uint8_t>({0}));
  EXPECT_EQ(average(ElementType::int8, bytes_of<std::int8_t>({-128}), 1),
            bytes_of<std::int8_t>({-128}));
  EXPECT_EQ(average(ElementType::float64, bytes_of({1.0}), 3), bytes_of({1.0 / 3.0}));
  EXPECT_EQ(average(ElementType::float32, bytes_of({1.0f}), 3), bytes_of({1.0f / 3.0f}));
  EXPECT_EQ(average(ElementType::float16, bytes_of<std::uint16_t>({0x3c00}), 3),
            bytes_of<std::uint16_t>({0x3555}));
  EXPECT_EQ(average(ElementType::bfloat16, bytes_of<std::uint16_t>({0x3f80}), 3),
            bytes_of<std::uint16_t>({0x3eab}));
  for (const ElementType type : types()) average(type, elements(type, 1031, 9), 7);
}

TEST(Reducer, Finish_changesOnlyAverages_andPrepareOnlyPremultipliedSums) {
  for (const Reducer& reducer : reducers()) {
    const Bytes input = elements(reducer.type(), 77, 3);
    const Bytes factor = elements(reducer.type(), 1, 4);
    Bytes finished = input;
    reducer.finish(finished.data(), 77, 3);
    Bytes prepared(input.size());
    reducer.prepare(prepared.data(), input.data(), 77, factor.data());
    Bytes reference(input.size());
    scalar(reducer).prepare(reference.data(), input.data(), 77, factor.data());
    EXPECT_EQ(prepared, reference) << name_of(reducer);
    if (reducer.operation() != Operation::average) {
      EXPECT_EQ(finished, input);
    }
    if (reducer.operation() != Operation::premultiplied_sum) {
      EXPECT_EQ(prepared, input);
    }
  }
}

TEST(Reducer, Reduce_equalsPrepareThenCombineThenFinish) {
  constexpr std::size_t kCount = 5003;  // odd, and more than reduce() handles in one block
  for (const Reducer& reducer : reducers()) {
    const std::size_t bytes = element_bytes(reducer.type());
    const Bytes factors = elements(reducer.type(), 3, 11);
    std::vector<Bytes> inputs;
    std::vector<Bytes> prepared;
    std::vector<const std::byte*> pointers;
    for (std::size_t i = 0; i < 3; ++i) {
      inputs.push_back(elements(reducer.type(), kCount, 20 + i));
      prepared.push_back(inputs.back());
      scalar(reducer).prepare(prepared[i].data(), inputs[i].data(), kCount,
                              factors.data() + i * bytes);
    }
    for (const Bytes& input : inputs) pointers.push_back(input.data());
    Bytes expected = accumulated(scalar(reducer), prepared[0], prepared[1]);
    expected = accumulated(scalar(reducer), expected, prepared[2]);
    scalar(reducer).finish(expected.data(), kCount, 3);
    for (const std::string_view implementation : Reducer::implementations()) {
      Bytes dst(expected.size());
      reducer.with_implementation(implementation)
          .value()
          .reduce(dst.data(), pointers, kCount, factors.data());
      ASSERT_EQ(dst, expected) << name_of(reducer) << " by " << implementation;
    }
  }
}

/// The value of a half, computed from its bits by the definition of the format.
double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const double fraction = (bits & 0x3ff) / 1024.0;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1.0 + fraction, exponent - 15);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(HalfFloat, EveryHalfConvertsToItsValueAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide = half_to_float(half);
    if ((half & 0x7fff) > 0x7c00) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_EQ(float_to_half(wide), kHalfNan);
      continue;
    }
    if ((half & 0x7fff) == 0x7c00) {
      EXPECT_TRUE(std::isinf(wide));
    } else {
      ASSERT_EQ(static_cast<double>(wide), half_value(half));
    }
    ASSERT_EQ(std::signbit(wide), (half & 0x8000) != 0);
    ASSERT_EQ(float_to_half(wide), half);
  }
}

/// Checks rounding between two neighbours of a 16-bit type: the middle rounds to the even
/// neighbour, every other value to the nearer one.
template <typename Narrow, typename Widen>
void expect_nearest_even(std::uint16_t infinity, const Narrow& narrow, const Widen& widen) {
  for (std::uint16_t below = 0; below < infinity; ++below) {
    const auto above = static_cast<std::uint16_t>(below + 1);
    const float low = widen(below);
    // Rounding treats infinity as the value that would follow the largest finite number.
    const float high = above == infinity
                           ? low + (low - widen(static_cast<std::uint16_t>(below - 1)))
                           : widen(above);
    const float middle = std::isinf(high) ? 0x1.ffp127f : low + (high - low) / 2;
    const std::uint16_t even = (below & 1) == 0 ? below : above;
    ASSERT_EQ(narrow(middle), even) << below;
    ASSERT_EQ(narrow(-middle), even | 0x8000) << below;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)), below);
    ASSERT_EQ(narrow(std::nextafter(middle, std::numeric_limits<float>::infinity())), above);
  }
}

TEST(HalfFloat, ConversionToHalf_roundsToNearestEven) {
  expect_nearest_even(0x7c00, float_to_half, half_to_float);
}

TEST(HalfFloat, Bfloat16_isTheUpperHalfOfAFloat_roundedToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto stored = static_cast<std::uint16_t>(bits);
    const float wide = bfloat_to_float(stored);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide) >> 16, bits);
    const bool nan = (stored & 0x7fff) > 0x7f80;
    ASSERT_EQ(float_to_bfloat(wide), nan ? kBfloatNan : stored);
  }
  expect_nearest_even(0x7f80, float_to_bfloat, bfloat_to_float);
}

}  // namespace
}  // namespace tutti::reduction
