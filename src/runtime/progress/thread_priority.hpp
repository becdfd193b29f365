// The scheduling priority of the library's threads, which determines how soon a thread runs when
// data arrives while the application computes on every core.
#pragma once

#include <optional>

#include "tutti/status.hpp"

namespace tutti::runtime {

/// The priority for which a thread asks the kernel.
struct PriorityRequest {
  /// Nice value from -20, the highest priority, to 19; nothing: the thread keeps the nice value
  /// that it inherited from its creator.
  std::optional<int> nice;
  bool realtime = false;  ///< true: the thread also asks for real-time priority
  bool demanded = false;  ///< true: the user chose the nice value, so a refusal is an error
};

/// The priority that the kernel has granted to a thread.
struct GrantedPriority {
  int nice = 0;
  bool realtime = false;  ///< true: the thread has real-time priority
};

/// The priority for the library's own threads: the nice value in TUTTI_PROGRESS_NICE. If this
/// variable is not set and the calling thread has the nice value 0, the priority is above that of
/// computing threads. If the calling thread has any other nice value, the library's threads inherit
/// it. Fails if the variable is not a nice value.
Result<PriorityRequest> progress_priority();

/// Asks the kernel to give the calling thread exact timers, short time slices, a nice value and
/// real-time priority; returns the granted priority.
///
/// Short time slices do not change the share of processor time that a thread gets. They let the
/// thread run as soon as it wakes, and not only after the time slice of a computing thread. This
/// needs Linux 6.12 and has no effect on older kernels. A lower nice value enlarges the share and
/// needs CAP_SYS_NICE or RLIMIT_NICE. At real-time priority the thread runs whenever it is ready,
/// which needs CAP_SYS_NICE or RLIMIT_RTPRIO.
///
/// If the kernel refuses a nice value that the user demanded, the call fails; all other refusals
/// are ignored. A thread with a scheduling policy other than SCHED_OTHER keeps its policy and
/// priority. New threads do not inherit the priority.
Result<GrantedPriority> apply_priority(const PriorityRequest& precedence);

/// Gives the calling thread real-time priority, or takes it away and sets the nice value again.
/// Returns false if the kernel refuses.
bool set_realtime(int nice, bool realtime);

}  // namespace tutti::runtime
