#include "runtime/communicator/communicator_impl.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "device/device.hpp"
#include "observe/log.hpp"
#include "runtime/communicator/closing.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/exception_status.hpp"

namespace tutti::runtime {

CommunicatorImpl::~CommunicatorImpl() {
  bool failed_before = false;
  bool collective_failed = false;
  if (served_) {
    logged([&] {
      progress_->with_engine([&] {
        failed_before = context_->failures().noted();
        collective_failed = context_->counters().collectives_failed > 0;
      });
    });
  }
  const Status end = close(kNever);
  const bool own = context_ && context_->failures().lost() == rank();
  if (end.ok() || !(own || end.code() == Code::aborted)) return;
  // The errors of the peers refer to that of this rank. It is logged, unless a collective has
  // returned it or the application itself has aborted the communicator.
  const bool known = failed_before && (collective_failed || end.code() == Code::aborted);
  if (!known) observe::complain(end.message());
}

// ---- closing ------------------------------------------------------------------------------------

Status CommunicatorImpl::close(Instant deadline) {
  if (closed_.exchange(true)) return {};
  Status first;
  // The routes are closed before this communicator's own context, because their side communicators
  // share its progress object.
  for (const std::shared_ptr<CallRoute>& route : routes_) {
    Status end = guarded([&] { return route->close(deadline); });
    if (first.ok()) first = std::move(end);
  }
  if (served_) progress_->remove(*context_);
  Status end;
  if (context_) end = guarded([&] { return close_context(*context_, progress_.get(), deadline); });
  if (first.ok()) first = std::move(end);
  return first;
}

Status CommunicatorImpl::finalize(Nanoseconds timeout) {
  if (!progress_->caller_may_wait()) {
    return failure(Code::invalid_argument,
                   "rank {}: a completion callback finalizes a communicator, which makes no "
                   "progress until the callback returns: finalize it in another thread",
                   index(rank()));
  }
  if (finalized_.exchange(true)) return status();
  const Instant begin = now();
  const Instant deadline = timeout < kNever - begin ? begin + timeout : kNever;
  const Status calls = end_calls(deadline, timeout);
  const Status end = close(deadline);
  return calls.ok() ? end : calls;
}

bool CommunicatorImpl::busy() {
  return progress_->with_engine([&] {
    return std::any_of(routes_.begin(), routes_.end(),
                       [](const auto& route) { return route->busy(); });
  });
}

/// Waits until no call is under way; false: a call is still under way at the deadline.
bool CommunicatorImpl::await_calls(Instant deadline) {
  constexpr Nanoseconds kRound{1'000'000};
  const engine::Completion never;
  while (busy()) {
    if (now() >= deadline) return false;
    progress_->wait(never, std::min(deadline, now() + kRound));
  }
  return true;
}

Status CommunicatorImpl::end_calls(Instant deadline, Nanoseconds timeout) {
  if (await_calls(deadline)) return {};
  const std::string seconds = fmt::format("{:.3f} s", static_cast<double>(timeout.count()) / 1e9);
  progress_->with_engine([&] {
    EnginePoller::run_contained(*context_, [&] {
      this->abort("the communicator was finalized, and calls were still under way after " +
                  seconds);
      return true;
    });
    poll_routes();
  });
  // An aborted call may not end at once, because receive workers may first have to finish a step.
  constexpr Nanoseconds kAbortPatience{1'000'000'000};
  (void)await_calls(now() + kAbortPatience);
  return failure(
      Code::timeout,
      "rank {}: calls were aborted, because they were not complete within the {} given to "
      "finalize: wait for their requests first, or allow more time",
      index(rank()), seconds);
}

Status CommunicatorImpl::not_at_home() const {
  return failure(Code::invalid_argument,
                 "rank {}: the communicator belongs to process {}, of which process {} is a fork: "
                 "create a communicator after fork()",
                 index(rank()), home_.process(), ::getpid());
}

Status CommunicatorImpl::check_caller() const {
  if (Status status = check_home(); !status) return status;
  if (progress_->caller_may_enter()) return {};
  return failure(Code::invalid_argument,
                 "rank {}: a completion callback uses a communicator with another engine, which "
                 "may wait for the end of this callback: use it in another thread, or make one of "
                 "the two communicators from the other by duplicate, split or subset",
                 index(rank()));
}

// ---- routes -------------------------------------------------------------------------------------

void CommunicatorImpl::add_route(std::shared_ptr<CallRoute> route) {
  progress_->with_engine([&] {
    CallRoute& added = **routes_.insert(routes_.begin(), std::move(route));
    added.on_failure([this](const Status&) { fail_routes(); });
    if (!added.status()) fail_routes();  // the route has failed before it had the hook
  });
}

Result<CallRoute*> CommunicatorImpl::route_of(const CollectiveCall& call) const {
  if (Status status = check_enumerators(call); !status) return status;
  for (const std::shared_ptr<CallRoute>& route : routes_) {
    if (route->serves(call)) return route.get();
  }
  return routes_.back().get();
}

Result<std::shared_ptr<RequestState>> CommunicatorImpl::start(engine::TaggedCall call,
                                                              bool will_wait) {
  if (Status status = check_usable(); !status) return status;
  const bool receives = call.kind == engine::TaggedCall::Kind::receive;
  const bool any_peer = receives && call.peer == kAnyRank;
  if (!any_peer && index(call.peer) >= size()) {
    return failure(Code::invalid_argument,
                   "{}: rank {} is not one of the {} ranks: give a rank from 0 to {}{}",
                   receives ? "receive" : "send", index(call.peer), size(), size() - 1,
                   receives ? ", or kAnyRank" : "");
  }
  if (!exists(call.priority)) {
    return failure(Code::invalid_argument,
                   "{}: priority {} does not exist: use low (-1), normal (0) or high (1)",
                   receives ? "receive" : "send", static_cast<int>(call.priority));
  }
  auto completion = std::make_shared<engine::Completion>();
  call.completion = completion;
  auto request = request_of([&]() -> CallRoute::Outcome {
    progress_->submit(*context_, std::make_unique<engine::TaggedCall>(std::move(call)), will_wait);
    return completion;
  });
  if (request) (*request)->receives = receives;
  return request;
}

Status CommunicatorImpl::cancel(const RequestState& request) {
  if (!request.receives) {
    return failure(Code::invalid_argument,
                   "rank {}: only a receive can be cancelled: wait for this call, or abort the "
                   "communicator",
                   index(rank()));
  }
  progress_->submit(
      *context_,
      std::make_unique<engine::TaggedCall>(engine::TaggedCall{
          .kind = engine::TaggedCall::Kind::cancel, .completion = request.completion}),
      false);
  return {};
}

Status CommunicatorImpl::status() const {
  if (finalized_) {
    return failure(Code::invalid_argument,
                   "rank {}: the communicator was finalized: create a new one", index(rank()));
  }
  return failure_of_routes();
}

Status CommunicatorImpl::failure_of_routes() const {
  // The loop begins with the engine's route, which is the last one in `routes_`. The engine knows
  // the earliest failure, because fail_routes() reports the failures of the other routes to it.
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (Status failed = (*route)->status(); !failed) return failed;
  }
  return {};
}

Status CommunicatorImpl::check_usable() {
  const Status failed = status();
  if (failed.ok()) return {};
  if (finalized_) return failed;
  if (!context_->failures().settled()) {
    fail_routes();
    progress_->poll_quietly();
  }
  return failure_from(failed, "the communicator has failed: {}", failed.message());
}

/// Passes the failure of one route to all others, because this rank starts no more calls on any
/// route. Calls under way on the other routes would otherwise wait for such calls without end.
void CommunicatorImpl::fail_routes() {
  if (closed_) return;
  // Without memory for the text, the routes fail with the lack of memory as the cause.
  const Status failed = guarded([&] { return failure_of_routes(); });
  progress_->with_engine([&] {
    for (const std::shared_ptr<CallRoute>& route : routes_) route->fail_because(failed);
  });
}

void CommunicatorImpl::add_side_counters(CallRoute::CounterList& counters) const {
  // Every communicator has the counter hierarchical_calls. It stays 0 unless the route of a
  // hierarchy adds its count.
  counters.emplace_back("hierarchical_calls", 0);
  for (const std::shared_ptr<CallRoute>& route : routes_) {
    for (const auto& added : route->counters()) {
      const auto same = std::find_if(counters.begin(), counters.end(), [&added](const auto& one) {
        return one.first == added.first;
      });
      if (same != counters.end()) same->second += added.second;
    }
  }
}

void CommunicatorImpl::abort(const std::string& reason) {
  if (closed_) return;
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) (*route)->abort(reason);
}

void CommunicatorImpl::poll_routes() {
  if (closed_) return;
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) (*route)->poll();
}

// ---- observation --------------------------------------------------------------------------------

std::string CommunicatorImpl::describe() const {
  const device::Capabilities& capabilities = context_->endpoint().capabilities();
  std::string lines;
  for (const std::shared_ptr<CallRoute>& route : routes_) {
    const std::string line = route->describe();
    if (!line.empty()) lines += line + "\n";
  }
  if (!note_.empty()) lines += note_ + "\n";
  if (!no_multicast_.empty()) lines += "no multicast: " + no_multicast_ + "\n";
  return fmt::format(
             "rank {} of {}, ranks found by {}\ndevice {}: {}\n"
             "chunks of {} bytes, {} subgroup(s), {}, receive window {} bytes, {}\n",
             index(context_->rank()), context_->size(), bootstrap_, device_,
             context_->endpoint().description(), context_->settings().chunk_bytes,
             context_->endpoint().subgroup_count(),
             context_->settings().chains == 0
                 ? std::string("turns learned")
                 : fmt::format("{} chain(s)", context_->settings().chains),
             capabilities.receive_window_bytes,
             receive_workers_ == 0 ? std::string("received by the owner of the engine")
                                   : fmt::format("{} receive worker(s)", receive_workers_)) +
         lines;
}

}  // namespace tutti::runtime
