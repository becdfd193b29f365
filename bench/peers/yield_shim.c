// Replaces epoll_wait() in a program that is started with this library in LD_PRELOAD; used for runs
// with more ranks than cores. UCX, which MPICH uses, calls epoll_wait() with a timeout of 0 in a
// loop and never yields the core. If such a call finds no event, the replacement yields the core.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

int epoll_wait(int epoll, struct epoll_event* events, int max_events, int timeout_ms) {
  const long found =
      syscall(SYS_epoll_pwait, epoll, events, max_events, timeout_ms, (void*)0, (size_t)0);
  if (found == 0 && timeout_ms == 0) {
    const int saved = errno;
    sched_yield();
    errno = saved;
  }
  return (int)found;
}
