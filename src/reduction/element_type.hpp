// The public element types and operations under the names of this layer, and the test whether an
// operation supports an element type.
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

using tutti::is_bitwise;
using tutti::is_float;
using tutti::is_supported;

}  // namespace tutti::reduction
