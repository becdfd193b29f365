// Closes a communicator: serves its peers until they need nothing more from this rank.
#pragma once

#include "device/device.hpp"
#include "engine/core/communicator_context.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Polls a context that the engine no longer serves until the peers need nothing more from it, for
/// a few seconds and until `deadline` at most; notices of a failure get a fraction of a second
/// more. Only this rank can retransmit its lost messages, so it must poll until then. Returns the
/// failure of the context, or Code::timeout if the deadline ended the service of the peers.
Status close_context(engine::CommunicatorContext& context, Instant deadline);

/// Fails a context that no engine serves, with notices to the peers, and polls it until no
/// collective uses memory of its caller.
void end_operations(engine::CommunicatorContext& context, const Status& why);

/// Sleeps until the endpoint is readable, but at most one millisecond, because the caller must
/// check its deadlines.
void wait_readable(device::Endpoint& endpoint);

}  // namespace tutti::runtime
