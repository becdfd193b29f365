// Closes a communicator: serves its peers until they need nothing more from this rank.
#pragma once

#include "device/device.hpp"
#include "engine/core/communicator_context.hpp"

namespace tutti::runtime {

/// Polls a context that no engine serves any more until its peers have what they need, for a few
/// seconds at most. Without this, lost messages of this rank would stay lost, because no other rank
/// repeats them.
void close_context(engine::CommunicatorContext& context);

/// Sleeps until the endpoint is readable, but at most a millisecond, because the caller has
/// deadlines.
void wait_readable(device::Endpoint& endpoint);

}  // namespace tutti::runtime
