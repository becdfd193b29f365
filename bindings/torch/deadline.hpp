// The clock of deadlines, and the time that is left until a deadline.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tutti::torch_backend {

using Clock = std::chrono::steady_clock;

inline std::int64_t nanoseconds_until(Clock::time_point deadline) {
  return std::max<std::int64_t>(std::chrono::nanoseconds(deadline - Clock::now()).count(), 0);
}

}  // namespace tutti::torch_backend
