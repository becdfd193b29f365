// The element types and the operations of reductions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {

/// The type of the elements that a reduction combines.
enum class DataType : std::uint8_t {
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,   ///< IEEE 754 binary16
  bfloat16,  ///< bfloat16, the upper 16 bits of an IEEE 754 binary32
  float32,
  float64,
};
inline constexpr std::size_t kDataTypes = 12;

/// The operation by which a reduction combines two elements.
enum class ReduceOperation : std::uint8_t {
  sum,
  min,
  max,
  prod,
  bit_and,
  bit_or,
  bit_xor,
  average,            ///< sum of all contributions, divided by the number of ranks at the end
  premultiplied_sum,  ///< sum of all contributions, each multiplied by its rank's factor first
};
inline constexpr std::size_t kReduceOperations = 9;

constexpr bool is_float(DataType type) { return type >= DataType::float16; }
constexpr bool is_bitwise(ReduceOperation operation) {
  return operation == ReduceOperation::bit_and || operation == ReduceOperation::bit_or ||
         operation == ReduceOperation::bit_xor;
}
/// Whether the operation supports the type. Bitwise operations support integers only.
constexpr bool is_supported(ReduceOperation operation, DataType type) {
  return !(is_bitwise(operation) && is_float(type));
}

/// The size of one element in bytes.
constexpr std::size_t element_bytes(DataType type) {
  constexpr std::array<std::uint8_t, kDataTypes> kBytes = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

/// The element type and the operation of one reduction.
struct Reduction {
  DataType type = DataType::float32;
  ReduceOperation operation = ReduceOperation::sum;
  /// Factor of this rank for premultiplied_sum, stored as one element of `type`; other operations
  /// ignore it.
  std::array<std::byte, 8> factor{};
};

constexpr const char* to_string(DataType type) {
  constexpr std::array<const char*, kDataTypes> kNames = {
      "int8",   "int16",  "int32",   "int64",    "uint8",   "uint16",
      "uint32", "uint64", "float16", "bfloat16", "float32", "float64"};
  return kNames[static_cast<std::size_t>(type)];
}

constexpr const char* to_string(ReduceOperation operation) {
  constexpr std::array<const char*, kReduceOperations> kNames = {
      "sum", "min", "max", "prod", "and", "or", "xor", "average", "premultiplied_sum"};
  return kNames[static_cast<std::size_t>(operation)];
}

}  // namespace tutti
