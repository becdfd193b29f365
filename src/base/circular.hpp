// Comparing sequence numbers that wrap: the one place where it is done.
#pragma once

#include <cstdint>

namespace tutti {

/// Whether `a` comes before `b`, where the two are less than 2^31 apart.
constexpr bool circular_before(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b) < 0;
}

}  // namespace tutti
