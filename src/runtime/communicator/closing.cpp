#include "runtime/communicator/closing.hpp"

#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/engine_poller.hpp"
#include "runtime/progress/exception_status.hpp"

namespace tutti::runtime {

namespace {

// Longest time for which a closing rank serves peers that have not acknowledged its notices of a
// failure: twice the longest retransmission timeout.
constexpr Nanoseconds kFailedLinger{100'000'000};

/// Polls once. An exception fails the communicator.
void poll_context(engine::CommunicatorContext& context) {
  EnginePoller::run_contained(context, [&] { return context.poll(now()); });
}

/// Polls until no peer needs this rank any more, but no longer than `patience` and not beyond
/// `deadline`. After a failure the limit is kFailedLinger, because only the failure notices remain
/// to be sent.
void linger(engine::CommunicatorContext& context, Nanoseconds patience, Instant deadline) {
  const Instant begin = now();
  const auto end = [&] {
    const bool failed = context.failures().settled();
    return std::min(deadline, begin + (failed ? std::min(patience, kFailedLinger) : patience));
  };
  while (!context.closing().may_leave() && now() < end()) {
    poll_context(context);
    wait_readable(context.endpoint());
  }
}

Status unserved(const engine::CommunicatorContext& context, std::vector<Rank> awaited) {
  std::vector<std::string> names;
  for (const Rank rank : awaited) names.push_back(context.names().of(rank));
  return failure_of(context.names().in_job(std::move(awaited)), Code::timeout,
                    "{} closed its communicator before {} acknowledged all data from it: allow "
                    "more time, or call a barrier before closing",
                    context.names().of(context.rank()), fmt::join(names, ", "));
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
  // Polls once before closing, so that a failure recorded since the last poll still reaches the
  // peers.
  poll_context(context);
  EnginePoller::run_contained(context, [&] {
    context.closing().begin(now());
    return true;
  });
  const auto needed = [&] { return context.closing().needed() && !context.failures().settled(); };
  while (needed() && now() < deadline) {
    poll_context(context);
    wait_readable(context.endpoint());
  }
  // The notices of a failure are sent even if the deadline has passed.
  if (context.failures().settled()) {
    linger(context, kFailedLinger, kNever);
    return guarded([&]() -> Status { return context.failures().status(); });
  }
  Status end;
  if (needed()) {
    end = guarded([&] { return unserved(context, context.closing().awaited(context.rank())); });
  }
  const Nanoseconds patience = context.settings().close_linger;
  // A call that is still under way may go on until it ends, but no longer than `patience`.
  if (context.busy()) linger(context, patience, deadline);
  EnginePoller::run_contained(context, [&] {
    // A call that is still under way is aborted, because a peer would otherwise wait forever for
    // this rank, which takes no further part in the call.
    if (context.busy()) {
      context.failures().abort(
          "it closed its communicator while a call was under way: complete all calls first");
    } else {
      context.closing().announce(now(), context.operations().next_epoch());
    }
    return true;
  });
  poll_context(context);
  linger(context, patience, deadline);
  const engine::FailureCoordinator& failures = context.failures();
  if (failures.noted() && !failures.settled()) poll_context(context);
  // The peers are told of a failure of this rank itself, so the caller gets this failure, too. The
  // loss of a peer is not reported, because this rank has no call under way any more.
  if (end.ok() && failures.settled() && failures.lost() == context.rank()) {
    return guarded([&]() -> Status { return failures.status(); });
  }
  return end;
}

}  // namespace tutti::runtime
