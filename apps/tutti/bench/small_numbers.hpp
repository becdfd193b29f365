// Test data for reductions: small whole numbers whose reduction is exact in every type and order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/reduction.hpp"

namespace tutti::app {

/// Writes the contribution of `rank` in one repetition, beginning with the first element.
void fill_small_numbers(std::span<std::byte> data, DataType type, std::uint32_t rank,
                        std::uint64_t repetition);

/// The number of bytes of `result` that differ from the reduction of all contributions in rank
/// order. `first_byte` is the offset of `result` in the whole vector.
std::uint64_t count_wrong_small_numbers(std::span<const std::byte> result, std::uint64_t first_byte,
                                        const Reduction& reduction, std::uint32_t ranks,
                                        std::uint64_t repetition);

}  // namespace tutti::app
