// The public types of a reduction under the names that this layer uses, and which go together.
#pragma once

#include <cstddef>

#include "tutti/reduction.hpp"

namespace tutti::reduction {

using ElementType = DataType;
using Operation = ReduceOperation;
using tutti::element_bytes;
using tutti::to_string;
inline constexpr std::size_t kElementTypes = kDataTypes;
inline constexpr std::size_t kOperations = kReduceOperations;

constexpr bool is_float(ElementType type) { return type >= ElementType::float16; }
constexpr bool is_bitwise(Operation operation) {
  return operation == Operation::bit_and || operation == Operation::bit_or ||
         operation == Operation::bit_xor;
}
/// Whether the pair means something: bitwise operations are for integers.
constexpr bool is_supported(Operation operation, ElementType type) {
  return !(is_bitwise(operation) && is_float(type));
}

}  // namespace tutti::reduction
