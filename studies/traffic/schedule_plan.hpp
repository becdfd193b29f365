// Converts the engine's schedules to message plans, so that the link traffic and time of exactly
// those task lists can be computed.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/schedule.hpp"
#include "studies/traffic/message_plan.hpp"
#include "tutti/status.hpp"

namespace tutti::traffic {

/// The messages of one collective. `schedules` are those of all ranks, by rank; every block has
/// `block_bytes`. A message is sent after everything that its task depends on, directly or through
/// copies and reductions, has been received. Copies, reductions and waiting for own sends take no
/// time. Messages without payload (signals) count as messages.
///
/// Errors: unsupported (held or ordered queues, one-sided tasks, tasks that wait for a collect),
/// invalid_argument (messages without a receiver, or that wait for each other in a cycle).
Result<sim::MessagePlan> plan_of(std::span<const schedule::Schedule> schedules,
                                 std::uint64_t block_bytes);

}  // namespace tutti::traffic
