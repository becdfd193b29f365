// The host's monotonic clock. No other code of the library reads the time, except for the TCP
// deadlines of bootstraps and aggregators (runtime/bootstrap/store/socket.hpp).
#pragma once

#include <ctime>

#include "tutti/units.hpp"

namespace tutti::runtime {

inline Instant now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return {time.tv_sec * 1'000'000'000 + time.tv_nsec};
}

/// The instant that lies `timeout` after the present one; kNever if `timeout` is
/// Nanoseconds::max().
inline Instant instant_after(Nanoseconds timeout) {
  const Instant at = now();
  return timeout < kNever - at ? at + timeout : kNever;
}

}  // namespace tutti::runtime
