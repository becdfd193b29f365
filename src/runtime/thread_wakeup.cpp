#include "runtime/thread_wakeup.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace tutti::runtime {

namespace {

/// The kernel's struct sched_attr as of its first version; C libraries did not declare it for long.
struct SchedulingAttributes {
  std::uint32_t size = 48;
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;  ///< of SCHED_OTHER: the length of a slice
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};

constexpr std::uint64_t kShortestSliceNs = 100'000;  // the kernel takes none that is shorter

}  // namespace

void wake_promptly() {
  (void)::prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
  if (::sched_getscheduler(0) != SCHED_OTHER) return;  // whoever chose another policy knows better
  SchedulingAttributes wanted;
  wanted.nice = ::getpriority(PRIO_PROCESS, 0);
  wanted.runtime_ns = kShortestSliceNs;
  (void)::syscall(SYS_sched_setattr, 0, &wanted, 0);
}

}  // namespace tutti::runtime
