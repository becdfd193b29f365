// The counters of a communicator, as `Communicator::counters` and flight dumps list them.
#pragma once

#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/routes/call_route.hpp"

namespace tutti::runtime {

/// Every counter of the protocol, the device and the routes. Only the owner of the engine may call
/// this.
CallRoute::CounterList counters_of(CommunicatorImpl& communicator);

}  // namespace tutti::runtime
