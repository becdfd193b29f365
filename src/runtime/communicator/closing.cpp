#include "runtime/communicator/closing.hpp"

#include <poll.h>

#include "runtime/progress/clock.hpp"

namespace tutti::runtime {

namespace {

// Time for which a closing rank serves peers that have not acknowledged its last messages.
constexpr Nanoseconds kCloseLinger{2'000'000'000};
constexpr Nanoseconds kFailedLinger{50'000'000};

/// Polls until nothing waits for a peer, but no longer than `patience`.
void linger(engine::CommunicatorContext& context, Nanoseconds patience) {
  const Instant deadline = now() + patience;
  while (!context.quiet() && now() < deadline) {
    context.poll(now());
    wait_readable(context.endpoint());
  }
}

}  // namespace

void wait_readable(device::Endpoint& endpoint) {
  pollfd ready{endpoint.wait_descriptor(), POLLIN, 0};
  if (ready.fd >= 0 && endpoint.prepare_wait()) (void)::poll(&ready, 1, 1);
}

void close_context(engine::CommunicatorContext& context) {
  // A failure that was only noted is carried out now, so that the peers learn of it.
  context.poll(now());
  context.closing().begin(now());
  while (context.closing().needed() && !context.failures().settled()) {
    context.poll(now());
    wait_readable(context.endpoint());
  }
  const bool well = !context.failures().settled();
  linger(context, well ? kCloseLinger : kFailedLinger);
  if (!well) return;
  context.slots().announce_close(now());
  // The wait is short, because a peer that closes at the same moment does not answer.
  linger(context, kFailedLinger);
}

}  // namespace tutti::runtime
