// The calls of a communicator: collectives, and messages from rank to rank.
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "runtime/communicator/at_home.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/communicator/prepared_state.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

using runtime::at_home;

// ---- Collectives --------------------------------------------------------------------------------

Result<Request> Communicator::start(const CollectiveCall& call) {
  return at_home(*state_, [&]() -> Result<Request> {
    auto request = state_->start(call);
    if (!request) return request.status();
    return Request(*request);
  });
}

Status start_all(Communicator& communicator, std::span<const CollectiveCall> calls,
                 std::span<Request> requests) {
  runtime::CommunicatorImpl& state = *communicator.state_;
  return at_home(state, [&]() -> Status {
    if (calls.size() != requests.size()) {
      return failure(
          Code::invalid_argument,
          "start_all: {} calls and {} requests are given: give one request for each call",
          calls.size(), requests.size());
    }
    std::vector<runtime::CallRoute::PreparedRun> runs;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      CollectiveCall call = calls[i];
      // Only the last call may wake the progress thread, because one wake-up suffices for all
      // calls.
      call.options.will_wait |= i + 1 < calls.size();
      const auto route = state.route_of(call);
      auto run = route ? (*route)->prepare(call) : route.status();
      if (!run) return failure_from(run.status(), "call {}: {}", i, run.status().message());
      runs.push_back(std::move(*run));
    }
    if (Status status = state.check_usable(); !status) return status;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      auto request = state.request_of(runs[i]);
      if (!request) return request.status();
      requests[i] = Request(*request);
    }
    // A short last call may not wake the progress thread, even if an earlier call is long. The
    // thread is therefore woken here.
    if (runs.size() > 1 && !calls.back().options.will_wait) state.progress()->wake();
    return {};
  });
}

Result<Prepared> Communicator::prepare(const CollectiveCall& call) {
  return at_home(*state_, [&]() -> Result<Prepared> {
    auto prepared = runtime::PreparedState::create(state_, call);
    if (!prepared) return prepared.status();
    return Prepared(std::move(*prepared));
  });
}

Result<Request> Prepared::start() {
  return at_home(state_->communicator(), [&]() -> Result<Request> {
    auto request = state_->start();
    if (!request) return request.status();
    return Request(*request);
  });
}

Result<Request> Communicator::barrier(const CollectiveOptions& options) {
  return start({.collective = Collective::barrier, .options = options});
}

Result<Request> Communicator::broadcast(std::span<std::byte> buffer, Rank root,
                                        const CollectiveOptions& options) {
  return start(
      {.collective = Collective::broadcast, .receive = buffer, .root = root, .options = options});
}

Result<Request> Communicator::allgather(std::span<const std::byte> own, std::span<std::byte> all,
                                        const CollectiveOptions& options) {
  return start(
      {.collective = Collective::allgather, .send = own, .receive = all, .options = options});
}

Result<Request> Communicator::allgatherv(std::span<const std::byte> own, std::span<std::byte> all,
                                         std::span<const std::uint64_t> sizes_bytes,
                                         std::span<const std::uint64_t> offsets_bytes,
                                         const CollectiveOptions& options) {
  return start({.collective = Collective::allgatherv,
                .send = own,
                .receive = all,
                .sizes_bytes = sizes_bytes,
                .offsets_bytes = offsets_bytes,
                .options = options});
}

Result<Request> Communicator::gather(std::span<const std::byte> own, std::span<std::byte> all,
                                     Rank root, const CollectiveOptions& options) {
  return start({.collective = Collective::gather,
                .send = own,
                .receive = all,
                .root = root,
                .options = options});
}

Result<Request> Communicator::scatter(std::span<const std::byte> all, std::span<std::byte> own,
                                      Rank root, const CollectiveOptions& options) {
  return start({.collective = Collective::scatter,
                .send = all,
                .receive = own,
                .root = root,
                .options = options});
}

Result<Request> Communicator::alltoall(std::span<const std::byte> send,
                                       std::span<std::byte> receive,
                                       const CollectiveOptions& options) {
  return start(
      {.collective = Collective::alltoall, .send = send, .receive = receive, .options = options});
}

Result<Request> Communicator::reduce(std::span<const std::byte> own, std::span<std::byte> result,
                                     Rank root, const Reduction& reduction,
                                     const CollectiveOptions& options) {
  return start({.collective = Collective::reduce,
                .send = own,
                .receive = result,
                .root = root,
                .reduction = reduction,
                .options = options});
}

Result<Request> Communicator::reduce_scatter(std::span<const std::byte> all,
                                             std::span<std::byte> own, const Reduction& reduction,
                                             const CollectiveOptions& options) {
  return start({.collective = Collective::reduce_scatter,
                .send = all,
                .receive = own,
                .reduction = reduction,
                .options = options});
}

Result<Request> Communicator::gatherv(std::span<const std::byte> own, std::span<std::byte> all,
                                      std::span<const std::uint64_t> sizes_bytes,
                                      std::span<const std::uint64_t> offsets_bytes, Rank root,
                                      const CollectiveOptions& options) {
  return start({.collective = Collective::gatherv,
                .send = own,
                .receive = all,
                .root = root,
                .sizes_bytes = sizes_bytes,
                .offsets_bytes = offsets_bytes,
                .options = options});
}

Result<Request> Communicator::scatterv(std::span<const std::byte> all,
                                       std::span<const std::uint64_t> sizes_bytes,
                                       std::span<const std::uint64_t> offsets_bytes,
                                       std::span<std::byte> own, Rank root,
                                       const CollectiveOptions& options) {
  return start({.collective = Collective::scatterv,
                .send = all,
                .receive = own,
                .root = root,
                .send_sizes_bytes = sizes_bytes,
                .send_offsets_bytes = offsets_bytes,
                .options = options});
}

Result<Request> Communicator::alltoallv(std::span<const std::byte> send,
                                        std::span<const std::uint64_t> send_sizes_bytes,
                                        std::span<const std::uint64_t> send_offsets_bytes,
                                        std::span<std::byte> receive,
                                        std::span<const std::uint64_t> sizes_bytes,
                                        std::span<const std::uint64_t> offsets_bytes,
                                        const CollectiveOptions& options) {
  return start({.collective = Collective::alltoallv,
                .send = send,
                .receive = receive,
                .sizes_bytes = sizes_bytes,
                .offsets_bytes = offsets_bytes,
                .send_sizes_bytes = send_sizes_bytes,
                .send_offsets_bytes = send_offsets_bytes,
                .options = options});
}

Result<Request> Communicator::reduce_scatterv(std::span<const std::byte> all,
                                              std::span<const std::uint64_t> sizes_bytes,
                                              std::span<const std::uint64_t> offsets_bytes,
                                              std::span<std::byte> own, const Reduction& reduction,
                                              const CollectiveOptions& options) {
  return start({.collective = Collective::reduce_scatterv,
                .send = all,
                .receive = own,
                .reduction = reduction,
                .send_sizes_bytes = sizes_bytes,
                .send_offsets_bytes = offsets_bytes,
                .options = options});
}

Result<Request> Communicator::send(std::span<const std::byte> message, Rank to, std::uint64_t tag,
                                   const MessageOptions& options) {
  return at_home(*state_, [&]() -> Result<Request> {
    // The const_cast is safe, because the engine only reads the buffer of a send.
    auto* const bytes = const_cast<std::byte*>(message.data());
    auto request = state_->start({.kind = engine::TaggedCall::Kind::send,
                                  .peer = to,
                                  .tag = tag,
                                  .buffer = {bytes, message.size()},
                                  .priority = options.priority},
                                 options.will_wait);
    if (!request) return request.status();
    return Request(*request);
  });
}

Result<Request> Communicator::receive(std::span<std::byte> buffer, Rank from, std::uint64_t tag,
                                      const MessageOptions& options) {
  return at_home(*state_, [&]() -> Result<Request> {
    auto request = state_->start({.kind = engine::TaggedCall::Kind::receive,
                                  .peer = from,
                                  .tag = tag,
                                  .tag_mask = options.tag_mask,
                                  .buffer = buffer,
                                  .priority = options.priority},
                                 options.will_wait);
    if (!request) return request.status();
    return Request(*request);
  });
}

Result<Request> Communicator::allreduce(std::span<const std::byte> own, std::span<std::byte> result,
                                        const Reduction& reduction,
                                        const CollectiveOptions& options) {
  return start({.collective = Collective::allreduce,
                .send = own,
                .receive = result,
                .reduction = reduction,
                .options = options});
}

}  // namespace tutti
