#include "bench/small_numbers.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "reduction/half_float.hpp"
#include "reduction/reducer.hpp"

namespace tutti::app {
namespace {

// Number of different element values. The values are 1 to 4, so that a sum of 64 elements is exact
// in bfloat16.
constexpr std::uint64_t kNumbers = 4;

template <typename T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

void put_number(std::byte* at, DataType type, int value) {
  switch (type) {
    case DataType::int8:
    case DataType::uint8:
      return put(at, static_cast<std::uint8_t>(value));
    case DataType::int16:
    case DataType::uint16:
      return put(at, static_cast<std::uint16_t>(value));
    case DataType::int32:
    case DataType::uint32:
      return put(at, static_cast<std::uint32_t>(value));
    case DataType::int64:
    case DataType::uint64:
      return put(at, static_cast<std::uint64_t>(value));
    case DataType::float16:
      return put(at, reduction::float_to_half(static_cast<float>(value)));
    case DataType::bfloat16:
      return put(at, reduction::float_to_bfloat(static_cast<float>(value)));
    case DataType::float32:
      return put(at, static_cast<float>(value));
    case DataType::float64:
      return put(at, static_cast<double>(value));
  }
}

void fill_elements(std::span<std::byte> data, std::uint64_t first, DataType type,
                   std::uint32_t rank, std::uint64_t repetition) {
  const std::size_t each = element_bytes(type);
  for (std::size_t i = 0; i < data.size() / each; ++i) {
    // The value depends on the element's index, the rank and the repetition, so that the check
    // finds shifted or old data.
    const std::uint64_t at = first + i;
    const std::uint64_t mixed = (at ^ (at >> 7) ^ (at >> 13)) + 3 * rank + repetition;
    put_number(data.data() + i * each, type, static_cast<int>(1 + mixed % kNumbers));
  }
}

}  // namespace

void fill_small_numbers(std::span<std::byte> data, DataType type, std::uint32_t rank,
                        std::uint64_t repetition) {
  fill_elements(data, 0, type, rank, repetition);
}

std::uint64_t count_wrong_small_numbers(std::span<const std::byte> result, std::uint64_t first_byte,
                                        const Reduction& reduction, std::uint32_t ranks,
                                        std::uint64_t repetition) {
  constexpr std::size_t kPieceBytes = 16 * 1024;
  const auto reducer = reduction::Reducer::create(reduction.operation, reduction.type);
  if (!reducer) return result.size();
  const std::size_t each = element_bytes(reduction.type);
  std::vector<std::byte> contributions(kPieceBytes * ranks);
  std::vector<std::byte> expected(kPieceBytes);
  std::vector<const std::byte*> operands;
  for (std::uint32_t r = 0; r < ranks; ++r) operands.push_back(&contributions[r * kPieceBytes]);
  std::uint64_t wrong = 0;
  for (std::size_t at = 0; at < result.size(); at += kPieceBytes) {
    const std::size_t bytes = std::min(kPieceBytes, result.size() - at);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      fill_elements(std::span(contributions).subspan(r * kPieceBytes, bytes),
                    (first_byte + at) / each, reduction.type, r, repetition);
    }
    reducer->combine(expected.data(), operands, bytes / each);
    reducer->finish(expected.data(), bytes / each, ranks);
    for (std::size_t i = 0; i < bytes; ++i) wrong += expected[i] != result[at + i] ? 1 : 0;
  }
  return wrong;
}

}  // namespace tutti::app
