#include "engine/core/departure.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace tutti::engine {

namespace {

// Limit of each of two waits of a closing rank after a failure: for its receive workers to stop,
// and for its peers to acknowledge its failure notices. It is twice the longest retransmission
// timeout.
constexpr Nanoseconds kFailedLinger{100'000'000};

}  // namespace

bool Departure::step(Instant now) {
  const Step before = step_;
  const FailureCoordinator& failures = context_.failures();
  switch (step_) {
    case Step::first:
      enter(Step::serving, now);
      context_.closing().begin(now);
      break;
    case Step::serving:
      serve(now);
      break;
    case Step::finishing:
      if (!context_.busy() || may_leave(now)) announce(now);
      break;
    case Step::announced:
      if (!may_leave(now)) break;
      enter(failures.noted() && !failures.settled() ? Step::settling : Step::over, now);
      break;
    case Step::telling:
      if (may_leave(now)) enter(Step::over, now);
      break;
    case Step::settling:
      if (failures.settled() || now >= entered_ + kFailedLinger) enter(Step::over, now);
      break;
    case Step::over:
      break;
  }
  return step_ != before;
}

void Departure::serve(Instant now) {
  if (context_.failures().settled()) {
    enter(Step::telling, now);
    end_ = context_.failures().status();
    return;
  }
  const bool needed = context_.closing().needed();
  if (needed && now < deadline_) return;
  enter(Step::finishing, now);
  if (needed) end_ = unserved();
  if (!context_.busy()) announce(now);
}

void Departure::announce(Instant now) {
  enter(Step::announced, now);
  if (context_.busy()) {
    // This rank takes no further part in a call that is still under way. It aborts the call,
    // because a peer would otherwise wait forever for this rank.
    context_.failures().abort(
        "it closed its communicator while a call was under way: complete all calls first");
  } else {
    context_.closing().announce(now, context_.operations().next_epoch());
  }
}

/// Whether this rank may leave the present step: no peer needs this rank, or the time is up. After
/// a failure the time is short, because only failure notices remain to be sent.
bool Departure::may_leave(Instant now) const {
  if (context_.closing().may_leave()) return true;
  Nanoseconds patience = context_.settings().close_linger;
  if (context_.failures().settled()) patience = std::min(patience, kFailedLinger);
  return now >= entered_ + patience || (step_ != Step::telling && now >= deadline_);
}

void Departure::enter(Step step, Instant now) {
  step_ = step;
  entered_ = now;
}

Status Departure::unserved() const {
  std::vector<Rank> awaited = context_.closing().awaited();
  std::vector<std::string> names;
  for (const Rank rank : awaited) names.push_back(context_.names().of(rank));
  return failure_of(context_.names().in_job(std::move(awaited)), Code::timeout,
                    "{0} closed its communicator before {1} acknowledged all data from {0}: pass "
                    "a longer time to finalize, or call a barrier before closing",
                    context_.names().of(context_.rank()), fmt::join(names, ", "));
}

// Reports a failure of this rank in every step, because the peers learn of this failure, too. Does
// not report a peer that is lost after the step `serving`: no peer needs this rank any more, and a
// call that was still under way has ended with an error that reports the loss.
Status Departure::status() const {
  const FailureCoordinator& failures = context_.failures();
  const bool own = failures.settled() && failures.lost() == context_.rank();
  return end_.ok() && own ? failures.status() : end_;
}

}  // namespace tutti::engine
