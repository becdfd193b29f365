// Comparison of sequence numbers that wrap at 2^32.
#pragma once

#include <cstdint>

namespace tutti {

/// True if `a` comes before `b`; the two must be less than 2^31 apart.
constexpr bool circular_before(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b) < 0;
}

}  // namespace tutti
