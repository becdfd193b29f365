// How soon a thread of ours runs when its data is there although the application computes on every
// core.
#pragma once

#include <optional>

#include "tutti/status.hpp"

namespace tutti::runtime {

/// Where a thread of ours wants to stand beside those that compute.
struct PriorityRequest {
  std::optional<int> nice;  ///< -20, before all others, to 19; none: as the thread that starts it
  bool realtime = false;    ///< of every nice value, where that is granted
  bool demanded = false;    ///< `nice`: by the user, to whom a refusal is an error
};

/// Where it stands.
struct GrantedPriority {
  int nice = 0;
  bool realtime = false;  ///< of every nice value
};

/// Of the threads that a communicator has beside the application's: TUTTI_PROGRESS_NICE, else
/// before threads that compute, unless whoever started the process has given it a nice value. Fails
/// where the variable is no nice value.
Result<PriorityRequest> progress_priority();

/// Asks the scheduler, for the calling thread, for exact timers, short slices, a nice value, and to
/// go before all; returns what the thread has of it from then on.
///
/// A thread with short slices gets no more of the processor than before, but gets it when it wakes
/// rather than at the end of a computing thread's slice (3 ms and more; Linux 6.12 and later,
/// without effect before), as long as it has had less than its share. With a lower nice value its
/// share is larger; that takes CAP_SYS_NICE or a limit (RLIMIT_NICE). Before all, by round robin at
/// the lowest real-time priority, it runs whenever it can; that takes CAP_SYS_NICE or another limit
/// (RLIMIT_RTPRIO). Where the kernel refuses, waking takes longer, and it fails only where the nice
/// value was demanded. A thread with another scheduling policy is left alone. Threads that this one
/// starts have nothing of it.
Result<GrantedPriority> apply_priority(const PriorityRequest& precedence);

/// For a thread that has asked to wake promptly: goes before all, or stands at its nice value, from
/// now on. False: the kernel refuses.
bool set_realtime(int nice, bool realtime);

}  // namespace tutti::runtime
