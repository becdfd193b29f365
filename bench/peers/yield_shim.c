// Makes a busy-waiting library fair when there are more ranks than cores: LD_PRELOAD it.
// UCX, and MPICH over it, polls epoll_wait() with a timeout of 0 in a loop that never gives the
// core away. When such a poll finds nothing, this one lets another process run first.
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
