#include "runtime/communicator/prepared_state.hpp"

#include <utility>

#include "base/error.hpp"

namespace tutti::runtime {

Result<std::shared_ptr<PreparedState>> PreparedState::create(
    std::shared_ptr<CommunicatorImpl> communicator, const CollectiveCall& call) {
  if (Status status = communicator->check_usable(); !status) return status;
  std::shared_ptr<PreparedState> state(new PreparedState(), [](PreparedState* last) {
    const bool at_home = !last->communicator_ || last->communicator_->check_home().ok();
    return at_home ? delete last : device::abandon(last);
  });
  state->communicator_ = std::move(communicator);
  state->collective_ = call.collective;
  state->sizes_bytes_.assign(call.sizes_bytes.begin(), call.sizes_bytes.end());
  state->offsets_bytes_.assign(call.offsets_bytes.begin(), call.offsets_bytes.end());
  state->send_sizes_bytes_.assign(call.send_sizes_bytes.begin(), call.send_sizes_bytes.end());
  state->send_offsets_bytes_.assign(call.send_offsets_bytes.begin(), call.send_offsets_bytes.end());
  state->algorithm_ = call.options.algorithm.name();
  CollectiveCall own = call;
  own.options.algorithm = Algorithm(state->algorithm_);
  own.sizes_bytes = state->sizes_bytes_;
  own.offsets_bytes = state->offsets_bytes_;
  own.send_sizes_bytes = state->send_sizes_bytes_;
  own.send_offsets_bytes = state->send_offsets_bytes_;
  const auto route = state->communicator_->route_of(own);
  if (!route) return route.status();
  auto run = (*route)->prepare(own);
  if (!run) return run.status();
  state->run_ = std::move(*run);
  return state;
}

Result<std::shared_ptr<RequestState>> PreparedState::start() {
  if (last_ && !last_->done.load(std::memory_order_acquire)) {
    return failure(Code::invalid_argument,
                   "a prepared {} was started again while its last run is under way: wait for the "
                   "request of that run first",
                   to_string(collective_));
  }
  if (Status status = communicator_->check_usable(); !status) return status;
  auto request = communicator_->request_of(run_);
  if (request) last_ = (*request)->completion;
  return request;
}

}  // namespace tutti::runtime
