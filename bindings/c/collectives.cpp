// Collectives and requests of the C interface.
#include <limits>
#include <span>

#include "handles.hpp"
#include "support.hpp"

namespace tutti::c {
namespace {

/// Starts a collective on a communicator with the options of the call.
using Starter = Result<Request> (*)(Communicator&, const void* arguments,
                                    const CollectiveOptions& options);

struct BroadcastArguments {
  void* buffer;
  size_t bytes;
  uint32_t root;
};

struct AllgatherArguments {
  const void* own;
  void* all;
  size_t bytes;
};

Result<Request> start_broadcast(Communicator& communicator, const void* arguments,
                                const CollectiveOptions& options) {
  const auto& call = *static_cast<const BroadcastArguments*>(arguments);
  if (call.buffer == nullptr && call.bytes != 0) return null_argument("broadcast", "buffer");
  return communicator.broadcast({static_cast<std::byte*>(call.buffer), call.bytes},
                                rank_of(call.root), options);
}

Result<Request> start_allgather(Communicator& communicator, const void* arguments,
                                const CollectiveOptions& options) {
  const auto& call = *static_cast<const AllgatherArguments*>(arguments);
  if (call.own == nullptr && call.bytes != 0) return null_argument("allgather", "own");
  if (call.all == nullptr && call.bytes != 0) return null_argument("allgather", "all");
  if (call.bytes > std::numeric_limits<size_t>::max() / communicator.size()) {
    return failure(Code::invalid_argument, "allgather: {} ranks x {} bytes are more than fit",
                   communicator.size(), call.bytes);
  }
  return communicator.allgather(
      {static_cast<const std::byte*>(call.own), call.bytes},
      {static_cast<std::byte*>(call.all), call.bytes * communicator.size()}, options);
}

Result<Request> start_barrier(Communicator& communicator, const void* /*arguments*/,
                              const CollectiveOptions& options) {
  return communicator.barrier(options);
}

Result<CollectiveOptions> to_options(const tutti_call_options_t* given, bool will_wait) {
  auto read = read_structure(given, "tutti_call_options_t");
  if (!read) return read.status();
  CollectiveOptions options;
  options.will_wait = will_wait;
  switch (read->algorithm) {
    case TUTTI_ALGORITHM_AUTOMATIC:
      options.algorithm = Algorithm::automatic;
      return options;
    case TUTTI_ALGORITHM_MULTICAST:
      options.algorithm = Algorithm::multicast;
      return options;
    case TUTTI_ALGORITHM_RING:
      options.algorithm = Algorithm::ring;
      return options;
    default:
      return failure(Code::invalid_argument, "{} is no algorithm: use TUTTI_ALGORITHM_...",
                     read->algorithm);
  }
}

/// Starts the collective and waits for it.
tutti_status_t run(tutti_comm_t* comm, Starter start, const void* arguments,
                   const tutti_call_options_t* given) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("collective", "comm");
    auto options = to_options(given, /*will_wait=*/true);
    if (!options) return options.status();
    auto request = start(*comm->communicator, arguments, *options);
    if (!request) return request.status();
    return request->wait();
  });
}

/// Starts the collective and gives the request to the caller.
tutti_status_t launch(tutti_comm_t* comm, Starter start, const void* arguments,
                      const tutti_call_options_t* given, tutti_request_t** out) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("collective", "comm");
    if (out == nullptr) return null_argument("collective", "request");
    auto options = to_options(given, /*will_wait=*/false);
    if (!options) return options.status();
    auto handle = std::make_unique<tutti_request>();  // before the start: nothing fails after it
    handle->communicator = comm->communicator;
    auto request = start(*comm->communicator, arguments, *options);
    if (!request) return request.status();
    handle->request = std::move(*request);
    *out = handle.release();
    return {};
  });
}

}  // namespace
}  // namespace tutti::c

using tutti::Code;
using tutti::Status;
using tutti::c::guarded;
using tutti::c::null_argument;

tutti_status_t tutti_broadcast(tutti_comm_t* comm, void* buffer, size_t bytes, uint32_t root,
                               const tutti_call_options_t* options) {
  const tutti::c::BroadcastArguments call{buffer, bytes, root};
  return tutti::c::run(comm, tutti::c::start_broadcast, &call, options);
}

tutti_status_t tutti_allgather(tutti_comm_t* comm, const void* own, void* all, size_t bytes,
                               const tutti_call_options_t* options) {
  const tutti::c::AllgatherArguments call{own, all, bytes};
  return tutti::c::run(comm, tutti::c::start_allgather, &call, options);
}

tutti_status_t tutti_barrier(tutti_comm_t* comm, const tutti_call_options_t* options) {
  return tutti::c::run(comm, tutti::c::start_barrier, nullptr, options);
}

tutti_status_t tutti_ibroadcast(tutti_comm_t* comm, void* buffer, size_t bytes, uint32_t root,
                                const tutti_call_options_t* options, tutti_request_t** request) {
  const tutti::c::BroadcastArguments call{buffer, bytes, root};
  return tutti::c::launch(comm, tutti::c::start_broadcast, &call, options, request);
}

tutti_status_t tutti_iallgather(tutti_comm_t* comm, const void* own, void* all, size_t bytes,
                                const tutti_call_options_t* options, tutti_request_t** request) {
  const tutti::c::AllgatherArguments call{own, all, bytes};
  return tutti::c::launch(comm, tutti::c::start_allgather, &call, options, request);
}

tutti_status_t tutti_ibarrier(tutti_comm_t* comm, const tutti_call_options_t* options,
                              tutti_request_t** request) {
  return tutti::c::launch(comm, tutti::c::start_barrier, nullptr, options, request);
}

tutti_status_t tutti_request_test(tutti_request_t* request, int* done) {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("tutti_request_test", "request");
    if (done == nullptr) return null_argument("tutti_request_test", "done");
    *done = request->request.test() ? 1 : 0;
    return *done != 0 ? request->request.wait() : Status();
  });
}

tutti_status_t tutti_request_wait(tutti_request_t* request) {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("tutti_request_wait", "request");
    return request->request.wait();
  });
}

tutti_status_t tutti_request_wait_for(tutti_request_t* request, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("tutti_request_wait_for", "request");
    if (timeout_ns < 0) {
      return tutti::failure(Code::invalid_argument, "tutti_request_wait_for: {} ns is negative",
                            timeout_ns);
    }
    return request->request.wait_for(tutti::Nanoseconds(timeout_ns));
  });
}

tutti_status_t tutti_request_progress(const tutti_request_t* request, tutti_progress_t* progress) {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("tutti_request_progress", "request");
    if (progress == nullptr) return null_argument("tutti_request_progress", "progress");
    const size_t size = progress->size;
    if (size < sizeof size) {
      return tutti::failure(Code::invalid_argument,
                            "tutti_progress_t.size is {}: set it to sizeof(tutti_progress_t)",
                            size);
    }
    const tutti::ProgressReport report = request->request.progress();
    const tutti_progress_t known{size, report.chunks_present, report.chunks_total,
                                 report.done ? 1u : 0u};
    std::memcpy(progress, &known, std::min(size, sizeof known));
    return {};
  });
}

tutti_status_t tutti_request_set_callback(tutti_request_t* request, tutti_completion_fn callback,
                                          void* context) {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("tutti_request_set_callback", "request");
    if (callback == nullptr) return null_argument("tutti_request_set_callback", "callback");
    if (request->has_callback) {
      return tutti::failure(Code::invalid_argument, "this request has a callback already");
    }
    request->has_callback = true;
    return request->communicator->on_completion(
        request->request, [callback, context](const Status& status) {
          callback(static_cast<tutti_status_t>(status.code()), status.message().c_str(), context);
        });
  });
}

void tutti_request_free(tutti_request_t* request) { delete request; }
