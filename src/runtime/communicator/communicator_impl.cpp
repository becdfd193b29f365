#include "runtime/communicator/communicator_impl.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "device/device.hpp"
#include "runtime/communicator/closing.hpp"

namespace tutti::runtime {

CommunicatorImpl::~CommunicatorImpl() {
  // Routes are destroyed first, because their side communicators use the same engine.
  for (std::shared_ptr<CallRoute>& route : routes_) route.reset();
  if (served_) progress_->remove(*context_);
  if (context_) close_context(*context_);
}

Status CommunicatorImpl::not_at_home() const {
  return failure(Code::invalid_argument,
                 "rank {}: the communicator belongs to process {}, of which process {} is a fork: "
                 "create a communicator after fork()",
                 index(rank()), home_.process(), ::getpid());
}

// ---- routes -------------------------------------------------------------------------------------

void CommunicatorImpl::add_route(std::shared_ptr<CallRoute> route) {
  routes_.insert(routes_.begin(), std::move(route));
}

CallRoute& CommunicatorImpl::route_of(const CollectiveCall& call) const {
  for (const std::shared_ptr<CallRoute>& route : routes_) {
    if (route->serves(call)) return *route;
  }
  return *routes_.back();
}

Result<std::shared_ptr<RequestState>> CommunicatorImpl::request_of(CallRoute::Outcome outcome) {
  if (!outcome) return outcome.status();
  auto request = std::make_shared<RequestState>();
  request->completion = std::move(*outcome);
  request->communicator = shared_from_this();
  return request;
}

Status CommunicatorImpl::status() const {
  // The engine's route is the last one. Its failure comes first, because check_usable ends it after
  // a failure of another route.
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (Status failed = (*route)->status(); !failed) return failed;
  }
  return {};
}

Status CommunicatorImpl::check_usable() {
  const Status failed = status();
  if (failed.ok()) return {};
  // This rank will start no call any more, so its peers must not wait for it in calls by the engine
  // after only a side communicator has failed.
  if (!context_->failures().settled()) {
    progress_->with_engine([&] { context_->failures().fail_because(failed); });
    progress_->poll_quietly();
  }
  return failure_from(failed, "the communicator has failed: {}", failed.message());
}

void CommunicatorImpl::add_side_counters(CallRoute::CounterList& counters) const {
  // If the communicator has a hierarchy, its route adds its own count to this zero.
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
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) (*route)->abort(reason);
}

void CommunicatorImpl::poll_routes() {
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
             context_->receiver().team() == nullptr
                 ? std::string("received by the owner of the engine")
                 : fmt::format("{} receive worker(s)", context_->receiver().team()->size())) +
         lines;
}

}  // namespace tutti::runtime
