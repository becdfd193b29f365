#include "runtime/communicator/closing.hpp"

#include <poll.h>

#include "runtime/progress/clock.hpp"

namespace tutti::runtime {

namespace {

// Longest time for which a closing rank serves peers that have not acknowledged its last messages.
constexpr Nanoseconds kCloseLinger{2'000'000'000};
constexpr Nanoseconds kFailedLinger{50'000'000};

/// Polls until every message of this rank has reached its peer, but no longer than `patience`.
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
  // A failure that was recorded since the last poll is carried out first, so that the peers learn
  // of it.
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
  // This wait is short, because a peer that closes at the same time does not acknowledge the
  // announcement.
  linger(context, kFailedLinger);
}

}  // namespace tutti::runtime
