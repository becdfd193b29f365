// What a reduction computes with: the element types and the operations, and which go together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti::reduction {

/// The type of one element of a vector.
enum class ElementType : std::uint8_t {
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,   ///< IEEE 754 binary16
  bfloat16,  ///< the upper half of a binary32
  float32,
  float64,
};
inline constexpr std::size_t kElementTypes = 12;

/// What is done with two elements.
enum class Operation : std::uint8_t {
  sum,
  min,
  max,
  prod,
  bit_and,
  bit_or,
  bit_xor,
  average,            ///< the sum, divided once by the number of contributions
  premultiplied_sum,  ///< the sum of the contributions, each multiplied by its own factor first
};
inline constexpr std::size_t kOperations = 9;

constexpr bool is_float(ElementType type) { return type >= ElementType::float16; }
constexpr bool is_bitwise(Operation operation) {
  return operation == Operation::bit_and || operation == Operation::bit_or ||
         operation == Operation::bit_xor;
}
/// Whether the pair means something: bitwise operations are for integers.
constexpr bool is_supported(Operation operation, ElementType type) {
  return !(is_bitwise(operation) && is_float(type));
}

constexpr std::size_t element_bytes(ElementType type) {
  constexpr std::array<std::uint8_t, kElementTypes> kBytes = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

constexpr const char* to_string(ElementType type) {
  constexpr std::array<const char*, kElementTypes> kNames = {
      "int8",   "int16",  "int32",   "int64",    "uint8",   "uint16",
      "uint32", "uint64", "float16", "bfloat16", "float32", "float64"};
  return kNames[static_cast<std::size_t>(type)];
}

constexpr const char* to_string(Operation operation) {
  constexpr std::array<const char*, kOperations> kNames = {
      "sum", "min", "max", "prod", "and", "or", "xor", "average", "premultiplied_sum"};
  return kNames[static_cast<std::size_t>(operation)];
}

}  // namespace tutti::reduction
