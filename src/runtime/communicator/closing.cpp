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

/// Sleeps after prepare_wait() until the endpoint is readable, but at most one millisecond.
void sleep_until_readable(const device::Endpoint& endpoint) {
  pollfd ready{endpoint.wait_descriptor(), POLLIN, 0};
  if (ready.fd >= 0) (void)::poll(&ready, 1, 1);
}

}  // namespace

void wait_readable(device::Endpoint& endpoint) {
  if (endpoint.prepare_wait()) sleep_until_readable(endpoint);
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

Status close_context(engine::CommunicatorContext& context, Progress* progress, Instant deadline) {
  const auto owning = [&](const auto& work) {
    return progress == nullptr ? work() : progress->with_engine(work);
  };
  engine::Departure departure(context, deadline);
  // Polls once before closing, so that a failure recorded since the last poll still reaches the
  // peers.
  owning([&] { poll_context(context); });
  while (!departure.over()) {
    const bool idle = owning([&] {
      return !EnginePoller::run_contained(context, [&] { return departure.step(now()); }) &&
             context.endpoint().prepare_wait();
    });
    if (idle) sleep_until_readable(context.endpoint());
    owning([&] { poll_context(context); });
  }
  return guarded([&] { return owning([&] { return departure.status(); }); });
}

}  // namespace tutti::runtime
