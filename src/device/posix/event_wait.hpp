// Waits for epoll events with a timeout in nanoseconds, or in milliseconds if epoll_pwait2 is
// missing (before Linux 5.11 and glibc 2.35) or refused by a seccomp filter.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <span>

namespace tutti::device {

/// The signature of epoll_pwait2.
using EpollPwait2 = int (*)(int, epoll_event*, int, const timespec*, const sigset_t*);

/// Waits by epoll_pwait2; after the kernel has refused epoll_pwait2 once, by epoll_pwait.
class EventWaiter {
 public:
  /// A null `call` makes this object use epoll_pwait from the start.
  explicit EventWaiter(EpollPwait2 call) : call_(call) {}

  /// Waits like epoll_pwait2 without a signal mask. With epoll_pwait, the timeout is rounded up to
  /// milliseconds.
  int wait(int epoll, std::span<epoll_event> events, const timespec& timeout);
  bool falls_back() const { return call_.load(std::memory_order_relaxed) == nullptr; }

 private:
  std::atomic<EpollPwait2> call_;
};

/// Waits by the one EventWaiter of this process.
int wait_events(int epoll, std::span<epoll_event> events, const timespec& timeout);

}  // namespace tutti::device
