// Converts the engine's schedules to message plans, so that the link traffic and time of the
// schedules can be computed.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/schedule.hpp"
#include "studies/traffic/message_plan.hpp"
#include "tutti/status.hpp"

namespace tutti::traffic {

/// Converts the schedules of all ranks, indexed by rank, to one message plan. Every block has
/// `block_bytes`. A rank sends a message once it has received everything on which the send task
/// depends, directly or through copies and reductions. Copies, reductions and waiting for the
/// rank's own sends take no time.
///
/// Errors: unsupported (held or ordered queues, one-sided tasks, waits, enables, or sends that
/// depend on a collect), invalid_argument (receives without a sender, or messages that wait for
/// each other in a cycle).
Result<sim::MessagePlan> plan_of(std::span<const schedule::Schedule> schedules,
                                 std::uint64_t block_bytes);

}  // namespace tutti::traffic
