// Test data for reductions: whole numbers so small that the result is exact in every element type
// and order of reduction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/reduction.hpp"

namespace tutti::app {

/// Fills `data` with the elements that `rank` contributes in this repetition.
void fill_small_numbers(std::span<std::byte> data, DataType type, std::uint32_t rank,
                        std::uint64_t repetition);

/// The number of bytes in `result` that differ from the reduction of all ranks' contributions.
/// `result` may be a part of the vector; `first_byte` is the offset of this part in the vector.
std::uint64_t count_wrong_small_numbers(std::span<const std::byte> result, std::uint64_t first_byte,
                                        const Reduction& reduction, std::uint32_t ranks,
                                        std::uint64_t repetition);

}  // namespace tutti::app
