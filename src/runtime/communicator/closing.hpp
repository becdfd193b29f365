// Closing a communicator: serving its peers until they need nothing more of this rank.
#pragma once

#include "device/device.hpp"
#include "engine/core/communicator_context.hpp"

namespace tutti::runtime {

/// Polls a context that no engine serves any more until its peers have what they need, for a few
/// seconds at most. Its last messages may be lost, and no other rank repeats them.
void close_context(engine::CommunicatorContext& context);

/// Sleeps until the endpoint is readable, for a millisecond at most: the caller has deadlines.
void wait_readable(device::Endpoint& endpoint);

}  // namespace tutti::runtime
