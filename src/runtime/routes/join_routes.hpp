// Adds the routes through host leaders and aggregators to a communicator of the application.
#pragma once

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Adds the route through host leaders, if hosts have several ranks and neither the options nor
/// TUTTI_DEVICE choose a device. All ranks must call this function. If the side communicators
/// cannot be created, the communicator has no hierarchy and describe() reports the reason.
Status join_hosts(CommunicatorImpl& communicator, Bootstrap& bootstrap,
                  const CommunicatorOptions& options);

/// Adds the route through the aggregators that the options name, if any. All ranks must call this
/// function.
Status join_aggregators(CommunicatorImpl& communicator, Bootstrap& bootstrap,
                        const CommunicatorOptions& options);

}  // namespace tutti::runtime
