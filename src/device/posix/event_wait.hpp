// Waiting for epoll events with a timeout in nanoseconds, also where the kernel or the C library
// lacks epoll_pwait2 (before Linux 5.11 and glibc 2.35, or refused by a seccomp filter).
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <span>

namespace tutti::device {

/// The signature of epoll_pwait2.
using EpollPwait2 = int (*)(int, epoll_event*, int, const timespec*, const sigset_t*);

/// Decides at its first refused call, and once, which of the two system calls it uses.
class EventWaiter {
 public:
  /// Null: the fallback from the start.
  explicit EventWaiter(EpollPwait2 call) : call_(call) {}

  /// As epoll_pwait2 without a signal mask. The fallback rounds the timeout up to milliseconds.
  int wait(int epoll, std::span<epoll_event> events, const timespec& timeout);
  bool falls_back() const { return call_.load(std::memory_order_relaxed) == nullptr; }

 private:
  std::atomic<EpollPwait2> call_;
};

/// EventWaiter::wait of the process.
int wait_events(int epoll, std::span<epoll_event> events, const timespec& timeout);

}  // namespace tutti::device
