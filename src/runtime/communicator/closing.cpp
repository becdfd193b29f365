#include "runtime/communicator/closing.hpp"

#include <poll.h>

#include "engine/core/departure.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/engine_poller.hpp"
#include "runtime/progress/exception_status.hpp"

namespace tutti::runtime {

namespace {

/// Polls once. If the poll throws, the communicator fails.
void poll_context(engine::CommunicatorContext& context) {
  EnginePoller::run_contained(context, [&] { return context.poll(now()); });
}

}  // namespace

void wait_readable(device::Endpoint& endpoint) {
  pollfd ready{endpoint.wait_descriptor(), POLLIN, 0};
  if (ready.fd >= 0 && endpoint.prepare_wait()) (void)::poll(&ready, 1, 1);
}

void end_operations(engine::CommunicatorContext& context, const Status& why) {
  EnginePoller::run_contained(context, [&] {
    context.failures().fail(why);
    return true;
  });
  do {
    poll_context(context);
  } while (context.busy());
}

Status close_context(engine::CommunicatorContext& context, Instant deadline) {
  engine::Departure departure(context, deadline);
  // Polls once before closing, so that a failure recorded since the last poll still reaches the
  // peers.
  poll_context(context);
  while (!departure.over()) {
    const bool moved = EnginePoller::run_contained(context, [&] { return departure.step(now()); });
    if (!moved) wait_readable(context.endpoint());
    poll_context(context);
  }
  return guarded([&] { return departure.status(); });
}

}  // namespace tutti::runtime
