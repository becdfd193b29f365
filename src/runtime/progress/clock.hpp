// The host's monotonic clock. No other code of the library reads the time, except the bootstrap.
#pragma once

#include <ctime>

#include "tutti/units.hpp"

namespace tutti::runtime {

inline Instant now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return {time.tv_sec * 1'000'000'000 + time.tv_nsec};
}

}  // namespace tutti::runtime
