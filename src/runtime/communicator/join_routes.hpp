// Adds the routes that a communicator of the application has beside its engine.
#pragma once

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Joins the ranks of each host in shared memory, and the hosts' leaders, if hosts have several
/// ranks and no device is named; collective. If that fails, the communicator stays flat, and
/// `describe` gives the reason.
Status join_hosts(CommunicatorImpl& communicator, Bootstrap& bootstrap,
                  const CommunicatorOptions& options);

/// Joins the aggregators that the options name; collective.
Status join_aggregators(CommunicatorImpl& communicator, Bootstrap& bootstrap,
                        const CommunicatorOptions& options);

}  // namespace tutti::runtime
