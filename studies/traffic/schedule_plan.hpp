// The engine's schedules as message plans: what an algorithm puts on the links, and how long that
// takes, from the very task lists that the engine runs.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/schedule.hpp"
#include "studies/traffic/message_plan.hpp"
#include "tutti/status.hpp"

namespace tutti::traffic {

/// The messages of one collective. `schedules` are those of all ranks, by rank; every block has
/// `block_bytes`. A message goes once all that its task waits for, directly or through copies and
/// reductions, has been received; these take no time themselves, nor does waiting for one's own
/// sends. Messages without payload (signals) count as messages.
///
/// Refused (unsupported): queues that are held or in order, one-sided tasks, and tasks that wait
/// for a multicast to be collected. Refused (invalid_argument): messages that nobody receives, or
/// that wait for each other in a circle.
Result<sim::MessagePlan> plan_of(std::span<const schedule::Schedule> schedules,
                                 std::uint64_t block_bytes);

}  // namespace tutti::traffic
