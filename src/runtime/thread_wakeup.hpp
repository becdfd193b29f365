// How soon a thread of ours runs when its data is there although the application computes on every
// core.
#pragma once

namespace tutti::runtime {

/// Asks the scheduler, for the calling thread, for exact timers and short slices. A thread with
/// short slices gets no more of the processor than before, but gets it when it wakes rather than at
/// the end of a computing thread's slice (3 ms and more; Linux 6.12 and later, without effect
/// before). Never fails: where the kernel refuses, waking takes longer.
void wake_promptly();

}  // namespace tutti::runtime
