// Ends a run of a schedule that waits for a closed peer.
#pragma once

#include "engine/core/communicator_context.hpp"
#include "engine/schedule/schedule_workspace.hpp"
#include "protocol/ready_barrier.hpp"
#include "schedule/schedule.hpp"

namespace tutti::engine {

/// Fails the communicator if a barrier message, data, an addition to a counter or a clear-to-send
/// of a closed peer is missing in this run. `barrier`: the run's ready barrier; null: it has none.
void fail_if_closed(CommunicatorContext& context, const protocol::ReadyBarrier* barrier,
                    const schedule::Schedule& schedule, const ScheduleWorkspace& run);

}  // namespace tutti::engine
