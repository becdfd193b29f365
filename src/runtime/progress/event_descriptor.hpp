// Helpers to wake a thread that sleeps in epoll: an eventfd, and the time left until a deadline.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>

#include "device/posix/descriptor.hpp"
#include "runtime/progress/clock.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

inline device::Descriptor make_event() {
  return device::Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

/// Makes an eventfd readable.
inline void signal_event(const device::Descriptor& event) {
  const std::uint64_t one = 1;
  (void)!::write(event.get(), &one, sizeof one);
}

/// Makes an eventfd or timerfd unreadable again.
inline void clear_event(int event) {
  std::uint64_t count = 0;
  (void)!::read(event, &count, sizeof count);
}

/// The time until a deadline, for device::wait_events; at most one second, so that a lost wake-up
/// only delays the thread.
inline timespec time_left(Instant deadline) {
  constexpr Nanoseconds kMaxSleep{1'000'000'000};
  const Nanoseconds left = std::clamp(deadline - now(), Nanoseconds(0), kMaxSleep);
  return {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
}

}  // namespace tutti::runtime
