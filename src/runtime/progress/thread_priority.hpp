// The scheduling priority of the library's threads, which determines how soon one runs when data
// arrives while the application computes on every core.
#pragma once

#include <optional>

#include "tutti/status.hpp"

namespace tutti::runtime {

/// The priority that a thread asks for.
struct PriorityRequest {
  /// Nice value from -20, the highest, to 19; none: that of the starting thread.
  std::optional<int> nice;
  bool realtime = false;  ///< true: also real-time priority, if it is granted
  bool demanded = false;  ///< true: the user asked for `nice`, so a refusal is an error
};

/// The priority that a thread has been granted.
struct GrantedPriority {
  int nice = 0;
  bool realtime = false;  ///< true: the thread has real-time priority
};

/// The priority for the library's own threads: TUTTI_PROGRESS_NICE, else above computing threads,
/// unless the process was started with a nice value. Fails if the variable is not a nice value.
Result<PriorityRequest> progress_priority();

/// Asks the scheduler, for the calling thread, for exact timers, short slices, a nice value and
/// real-time priority; returns the granted priority.
///
/// A thread with short slices gets no more processor time than before, but gets it when it wakes
/// rather than at the end of a computing thread's slice (3 ms and more), as long as it has had less
/// than its share; this needs Linux 6.12 and has no effect before. A lower nice value enlarges the
/// share; that needs CAP_SYS_NICE or a limit (RLIMIT_NICE). At real-time priority (round robin at
/// the lowest level) the thread runs whenever it can; that needs CAP_SYS_NICE or a limit
/// (RLIMIT_RTPRIO).
///
/// A refusal is an error only for a demanded nice value. A thread with another scheduling policy is
/// left unchanged. Threads that the calling thread starts inherit nothing.
Result<GrantedPriority> apply_priority(const PriorityRequest& precedence);

/// Gives the calling thread real-time priority, or its nice value back. False if the kernel
/// refuses.
bool set_realtime(int nice, bool realtime);

}  // namespace tutti::runtime
