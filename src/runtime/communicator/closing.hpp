// Closes a communicator: serves its peers until they need nothing more from this rank.
#pragma once

#include "device/device.hpp"
#include "engine/core/communicator_context.hpp"
#include "runtime/progress/progress.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Polls a context that no progress object polls any more, because peers may still wait for
/// messages that only this rank can retransmit. The polling ends when the peers need nothing more
/// from this rank, after a few seconds, or at `deadline`. After a failure it may last a fraction of
/// a second longer, to notify the peers. Returns the failure of the context, or Code::timeout if
/// the deadline passed before the peers were served. The calling thread owns the engine of
/// `progress` during each step, because other threads may read counters and records; null: no other
/// thread uses the context.
Status close_context(engine::CommunicatorContext& context, Progress* progress, Instant deadline);

/// Ends all collectives of a context that no progress object polls. Notifies the peers of the
/// failure `why`, and polls the context until no collective uses the memory of its caller any more.
void end_operations(engine::CommunicatorContext& context, const Status& why);

/// Sleeps until the endpoint is readable, but at most one millisecond, because the caller must
/// check its deadlines.
void wait_readable(device::Endpoint& endpoint);

}  // namespace tutti::runtime
