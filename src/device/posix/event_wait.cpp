#include "device/posix/event_wait.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>

namespace tutti::device {
namespace {

#ifdef TUTTI_HAVE_EPOLL_PWAIT2
constexpr EpollPwait2 kEpollPwait2 = ::epoll_pwait2;
#else
constexpr EpollPwait2 kEpollPwait2 = nullptr;
#endif

// The timeout is rounded up, because a timeout of 0 would turn the caller's wait into a busy loop.
int milliseconds(const timespec& timeout) {
  constexpr std::int64_t kLongest = std::numeric_limits<int>::max();
  const std::int64_t seconds = std::min<std::int64_t>(timeout.tv_sec, kLongest / 1000);
  const std::int64_t sum = seconds * 1000 + (timeout.tv_nsec + 999'999) / 1'000'000;
  return static_cast<int>(std::min(sum, kLongest));
}

}  // namespace

int EventWaiter::wait(int epoll, std::span<epoll_event> events, const timespec& timeout) {
  const int capacity = static_cast<int>(events.size());
  if (const EpollPwait2 call = call_.load(std::memory_order_relaxed)) {
    const int count = call(epoll, events.data(), capacity, &timeout, nullptr);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    call_.store(nullptr, std::memory_order_relaxed);
  }
  return ::epoll_pwait(epoll, events.data(), capacity, milliseconds(timeout), nullptr);
}

int wait_events(int epoll, std::span<epoll_event> events, const timespec& timeout) {
  static EventWaiter waiter(kEpollPwait2);
  return waiter.wait(epoll, events, timeout);
}

}  // namespace tutti::device
