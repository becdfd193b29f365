// Data for reductions whose result is exact in every type and order: small whole numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/reduction.hpp"

namespace tutti::app {

/// What `rank` contributes in one repetition, from the first element on.
void fill_small_numbers(std::span<std::byte> data, DataType type, std::uint32_t rank,
                        std::uint64_t repetition);

/// Bytes of `result` that differ from the ranks' contributions combined in rank order;
/// `first_byte`: where in the contributions the result lies.
std::uint64_t count_wrong_small_numbers(std::span<const std::byte> result, std::uint64_t first_byte,
                                        const Reduction& reduction, std::uint32_t ranks,
                                        std::uint64_t repetition);

}  // namespace tutti::app
