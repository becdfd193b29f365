// The scheduling priority of the library's threads: how soon one runs when data arrives while the
// application computes on every core.
#pragma once

#include <optional>

#include "tutti/status.hpp"

namespace tutti::runtime {

/// The priority that a thread asks for.
struct PriorityRequest {
  std::optional<int> nice;  ///< -20, the highest, to 19; none: that of the starting thread
  bool realtime = false;    ///< real-time priority as well, if it is granted
  bool demanded = false;    ///< the user asked for `nice`: a refusal is an error
};

/// The priority that a thread has.
struct GrantedPriority {
  int nice = 0;
  bool realtime = false;  ///< real-time priority
};

/// For the library's own threads: TUTTI_PROGRESS_NICE, else above computing threads, unless the
/// process was started with a nice value. Fails if the variable is no nice value.
Result<PriorityRequest> progress_priority();

/// Asks the scheduler, for the calling thread, for exact timers, short slices, a nice value and
/// real-time priority; returns the granted priority.
///
/// A thread with short slices gets no more of the processor than before, but gets it when it wakes
/// rather than at the end of a computing thread's slice (3 ms and more; Linux 6.12 and later,
/// without effect before), as long as it has had less than its share. With a lower nice value its
/// share is larger; that takes CAP_SYS_NICE or a limit (RLIMIT_NICE). In real time (round robin at
/// the lowest priority) it runs whenever it can; that takes CAP_SYS_NICE or a limit
/// (RLIMIT_RTPRIO). A refusal is an error only for a demanded nice value. A thread with another
/// scheduling policy is left as it is. Threads that this one starts inherit nothing.
Result<GrantedPriority> apply_priority(const PriorityRequest& precedence);

/// Moves the calling thread to real-time priority, or back to its nice value. False: the kernel
/// refuses.
bool set_realtime(int nice, bool realtime);

}  // namespace tutti::runtime
