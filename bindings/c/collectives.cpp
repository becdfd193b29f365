// Collectives of the C interface.
#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "handles.hpp"
#include "support.hpp"

namespace tutti::c {
namespace {

/// A buffer argument of a C function: its name, its address, and the size and number of its blocks.
struct Blocks {
  const char* name;
  const void* data;
  size_t block_bytes;
  size_t blocks;
};

/// Checks a buffer argument. NULL is valid only for 0 bytes, and the size of all blocks together
/// must fit a size_t.
Status check(const tutti::CollectiveCall& call, const Blocks& buffer) {
  const char* const collective = to_string(call.collective);
  if (buffer.data == nullptr && buffer.block_bytes != 0 && buffer.blocks != 0)
    return null_argument(collective, buffer.name);
  if (buffer.blocks != 0 && buffer.block_bytes > std::numeric_limits<size_t>::max() / buffer.blocks)
    return failure(
        Code::invalid_argument,
        "{}: the {} buffer is too large with {} blocks of {} bytes: use fewer or smaller "
        "blocks",
        collective, buffer.name, buffer.blocks, buffer.block_bytes);
  return {};
}

/// The arguments of a C function, converted to those of the C++ interface. `status` is the first
/// error found in them.
struct Arguments {
  tutti::CollectiveCall call;
  Status status;

  Arguments(Collective collective, uint32_t root = 0) {
    call.collective = collective;
    call.root = rank_of(root);
  }
  Arguments& send(const Blocks& buffer) {
    if (note(check(call, buffer)))
      call.send = {static_cast<const std::byte*>(buffer.data), buffer.block_bytes * buffer.blocks};
    return *this;
  }
  Arguments& receive(const Blocks& buffer) {
    if (note(check(call, buffer)))
      call.receive = {static_cast<std::byte*>(const_cast<void*>(buffer.data)),
                      buffer.block_bytes * buffer.blocks};
    return *this;
  }
  /// Reads the sizes and offsets of the blocks of one buffer; false if an array is NULL.
  bool received_blocks(const uint64_t* sizes, const uint64_t* offsets, const Communicator& of) {
    return blocks("", sizes, offsets, of, call.sizes_bytes, call.offsets_bytes);
  }
  bool sent_blocks(const uint64_t* sizes, const uint64_t* offsets, const Communicator& of) {
    return blocks("send_", sizes, offsets, of, call.send_sizes_bytes, call.send_offsets_bytes);
  }
  bool blocks(const std::string& prefix, const uint64_t* sizes, const uint64_t* offsets,
              const Communicator& of, std::span<const uint64_t>& sizes_of_call,
              std::span<const uint64_t>& offsets_of_call) {
    const char* const function = to_string(call.collective);
    if (sizes == nullptr) return note(null_argument(function, (prefix + "sizes").c_str()));
    if (offsets == nullptr) return note(null_argument(function, (prefix + "offsets").c_str()));
    sizes_of_call = {sizes, of.size()};
    offsets_of_call = {offsets, of.size()};
    return true;
  }
  Arguments& reduction(const tutti_reduction_t* given);
  Arguments& options(const tutti_call_options_t* given, bool will_wait);
  bool note(const Status& found) {
    if (status.ok()) status = found;
    return found.ok();
  }
};

Arguments& Arguments::reduction(const tutti_reduction_t* given) {
  if (given == nullptr) {
    note(null_argument(to_string(call.collective), "reduction"));
    return *this;
  }
  auto read = read_structure(given, "tutti_reduction_t");
  if (!note(read.status())) return *this;
  const auto unknown = [&](const char* what, std::uint32_t value, const char* known) {
    note(failure(Code::invalid_argument,
                 "{0}: no {1} has the value {2}: use {3} or another {1} of tutti.h",
                 to_string(call.collective), what, value, known));
  };
  if (read->type >= kDataTypes) {
    unknown("element type", read->type, "TUTTI_FLOAT32");
    return *this;
  }
  if (read->operation >= kReduceOperations) {
    unknown("operation", read->operation, "TUTTI_SUM");
    return *this;
  }
  call.reduction.type = static_cast<DataType>(read->type);
  call.reduction.operation = static_cast<ReduceOperation>(read->operation);
  if (call.reduction.operation != ReduceOperation::premultiplied_sum) return *this;
  if (note(read->factor == nullptr ? null_argument("tutti_reduction_t", "factor") : Status()))
    std::memcpy(call.reduction.factor.data(), read->factor, element_bytes(call.reduction.type));
  return *this;
}

Arguments& Arguments::options(const tutti_call_options_t* given, bool will_wait) {
  auto read = read_structure(given, "tutti_call_options_t");
  if (!note(read.status())) return *this;
  CollectiveOptions& options = call.options;
  options.will_wait = will_wait || read->will_wait != 0;
  options.ports = read->ports;
  options.radix = read->radix;
  options.segments = read->segments;
  if (read->priority < TUTTI_PRIORITY_LOW || read->priority > TUTTI_PRIORITY_HIGH) {
    note(failure(Code::invalid_argument,
                 "tutti_call_options_t.priority is {}: use a TUTTI_PRIORITY_... value of tutti.h",
                 read->priority));
    return *this;
  }
  options.priority = static_cast<Priority>(read->priority);
  if (read->algorithm_name != nullptr) {
    options.algorithm = Algorithm(read->algorithm_name);
  } else if (read->algorithm == TUTTI_ALGORITHM_MULTICAST) {
    options.algorithm = Algorithm::multicast;
  } else if (read->algorithm == TUTTI_ALGORITHM_RING) {
    options.algorithm = Algorithm::ring;
  } else if (read->algorithm != TUTTI_ALGORITHM_AUTOMATIC) {
    note(failure(Code::invalid_argument,
                 "tutti_call_options_t.algorithm is {}: use a TUTTI_ALGORITHM_... value of tutti.h",
                 read->algorithm));
  }
  return *this;
}

/// The arguments of a call as `write` converts them, or the first error that `write` found in them.
template <typename Write>
Result<Arguments> arguments_of(tutti_comm_t* comm, const Write& write) {
  if (comm == nullptr) return null_argument("collective", "comm");
  Arguments arguments = write(*comm->communicator);
  if (!arguments.status.ok()) return arguments.status;
  return arguments;
}

/// Runs a blocking collective: starts it and waits for its end.
template <typename Write>
tutti_status_t run(tutti_comm_t* comm, const tutti_call_options_t* options, const Write& write) {
  return guarded([&]() -> Status {
    auto arguments = arguments_of(comm, write);
    if (!arguments) return arguments.status();
    if (!arguments->options(options, /*will_wait=*/true).status.ok()) return arguments->status;
    auto request = comm->communicator->start(arguments->call);
    return request ? request->wait() : request.status();
  });
}

/// Runs a nonblocking collective: starts it and stores its request in *out.
template <typename Write>
tutti_status_t launch(tutti_comm_t* comm, const tutti_call_options_t* options,
                      tutti_request_t** out, const Write& write) {
  return guarded([&]() -> Status {
    auto arguments = arguments_of(comm, write);
    if (!arguments) return arguments.status();
    if (out == nullptr) return null_argument("collective", "request");
    if (!arguments->options(options, /*will_wait=*/false).status.ok()) return arguments->status;
    return store_request(comm->communicator, out,
                         [&] { return comm->communicator->start(arguments->call); });
  });
}

/// Returns a function that reads and converts the arguments in a tutti_call_t.
auto described_by(const tutti_call_t* given) {
  return [=](Communicator& of) {
    Arguments made(Collective::barrier);
    if (given == nullptr) {
      made.note(null_argument("collective", "call"));
      return made;
    }
    const auto read = read_structure(given, "tutti_call_t");
    if (!made.note(read.status())) return made;
    if (read->collective >= kCollectives) {
      made.note(
          failure(Code::invalid_argument,
                  "tutti_call_t.collective is {}, which is no collective: use TUTTI_BARRIER or "
                  "another collective of tutti.h",
                  read->collective));
      return made;
    }
    made.call.collective = static_cast<Collective>(read->collective);
    made.call.root = rank_of(read->root);
    made.send({"send", read->send, read->send_bytes, 1});
    made.receive({"receive", read->receive, read->receive_bytes, 1});
    const bool named = read->sizes != nullptr || read->offsets != nullptr;
    if (named) made.received_blocks(read->sizes, read->offsets, of);
    const bool send_named = read->send_sizes != nullptr || read->send_offsets != nullptr;
    if (send_named) made.sent_blocks(read->send_sizes, read->send_offsets, of);
    if (reduces(made.call.collective)) made.reduction(read->reduction);
    return made.options(read->options, /*will_wait=*/false);
  };
}

auto barrier() {
  return [](Communicator&) { return Arguments(Collective::barrier); };
}

auto broadcast(void* buffer, size_t bytes, uint32_t root) {
  return [=](Communicator&) {
    return Arguments(Collective::broadcast, root).receive({"buffer", buffer, bytes, 1});
  };
}

auto allgather(const void* own, void* all, size_t bytes) {
  return [=](Communicator& of) {
    return Arguments(Collective::allgather)
        .send({"own", own, bytes, 1})
        .receive({"all", all, bytes, of.size()});
  };
}

auto allgatherv(const void* own, void* all, size_t all_bytes, const uint64_t* sizes,
                const uint64_t* offsets) {
  return [=](Communicator& of) {
    Arguments made(Collective::allgatherv);
    if (!made.received_blocks(sizes, offsets, of)) return made;
    return made.send({"own", own, sizes[index(of.rank())], 1}).receive({"all", all, all_bytes, 1});
  };
}

auto gatherv(const void* own, size_t own_bytes, void* all, size_t all_bytes, const uint64_t* sizes,
             const uint64_t* offsets, uint32_t root) {
  return [=](Communicator& of) {
    Arguments made(Collective::gatherv, root);
    made.send({"own", own, own_bytes, 1});
    if (index(of.rank()) != root || !made.received_blocks(sizes, offsets, of)) return made;
    return made.receive({"all", all, all_bytes, 1});
  };
}

auto scatterv(const void* all, size_t all_bytes, const uint64_t* sizes, const uint64_t* offsets,
              void* own, size_t own_bytes, uint32_t root) {
  return [=](Communicator& of) {
    Arguments made(Collective::scatterv, root);
    made.receive({"own", own, own_bytes, 1});
    if (index(of.rank()) != root || !made.sent_blocks(sizes, offsets, of)) return made;
    return made.send({"all", all, all_bytes, 1});
  };
}

auto alltoallv(const void* send, size_t send_bytes, const uint64_t* send_sizes,
               const uint64_t* send_offsets, void* receive, size_t receive_bytes,
               const uint64_t* sizes, const uint64_t* offsets) {
  return [=](Communicator& of) {
    Arguments made(Collective::alltoallv);
    made.sent_blocks(send_sizes, send_offsets, of);
    made.received_blocks(sizes, offsets, of);
    return made.send({"send", send, send_bytes, 1}).receive({"receive", receive, receive_bytes, 1});
  };
}

auto reduce_scatterv(const void* all, size_t all_bytes, const uint64_t* sizes,
                     const uint64_t* offsets, void* own, size_t own_bytes,
                     const tutti_reduction_t* reduction) {
  return [=](Communicator& of) {
    Arguments made(Collective::reduce_scatterv);
    made.sent_blocks(sizes, offsets, of);
    return made.reduction(reduction)
        .send({"all", all, all_bytes, 1})
        .receive({"own", own, own_bytes, 1});
  };
}

auto gather(const void* own, void* all, size_t bytes, uint32_t root) {
  return [=](Communicator& of) {
    const size_t blocks = index(of.rank()) == root ? of.size() : 0;
    return Arguments(Collective::gather, root)
        .send({"own", own, bytes, 1})
        .receive({"all", all, bytes, blocks});
  };
}

auto scatter(const void* all, void* own, size_t bytes, uint32_t root) {
  return [=](Communicator& of) {
    const size_t blocks = index(of.rank()) == root ? of.size() : 0;
    return Arguments(Collective::scatter, root)
        .send({"all", all, bytes, blocks})
        .receive({"own", own, bytes, 1});
  };
}

auto alltoall(const void* send, void* receive, size_t bytes) {
  return [=](Communicator& of) {
    return Arguments(Collective::alltoall)
        .send({"send", send, bytes, of.size()})
        .receive({"receive", receive, bytes, of.size()});
  };
}

/// The size of `count` elements in bytes; SIZE_MAX if it does not fit a size_t.
size_t bytes_of(size_t count, const tutti_reduction_t* reduction) {
  if (reduction == nullptr || reduction->type >= kDataTypes) return 0;
  const size_t each = element_bytes(static_cast<DataType>(reduction->type));
  constexpr size_t kMost = std::numeric_limits<size_t>::max();
  return count > kMost / each ? kMost : count * each;
}

auto reduce(const void* own, void* result, size_t count, uint32_t root,
            const tutti_reduction_t* reduction) {
  return [=](Communicator& of) {
    const size_t bytes = bytes_of(count, reduction);
    return Arguments(Collective::reduce, root)
        .reduction(reduction)
        .send({"own", own, bytes, 1})
        .receive({"result", result, bytes, index(of.rank()) == root ? 1u : 0u});
  };
}

auto reduce_scatter(const void* all, void* own, size_t count, const tutti_reduction_t* reduction) {
  return [=](Communicator& of) {
    const size_t bytes = bytes_of(count, reduction);
    return Arguments(Collective::reduce_scatter)
        .reduction(reduction)
        .send({"all", all, bytes, of.size()})
        .receive({"own", own, bytes, 1});
  };
}

auto allreduce(const void* own, void* result, size_t count, const tutti_reduction_t* reduction) {
  return [=](Communicator&) {
    const size_t bytes = bytes_of(count, reduction);
    return Arguments(Collective::allreduce)
        .reduction(reduction)
        .send({"own", own, bytes, 1})
        .receive({"result", result, bytes, 1});
  };
}

// The enumerators of a collective in C and in C++ have the same value, so that a cast converts
// them.
static_assert(static_cast<int>(Collective::barrier) == TUTTI_BARRIER);
static_assert(static_cast<int>(Collective::reduce_scatterv) == TUTTI_REDUCE_SCATTERV);
static_assert(kCollectives == TUTTI_REDUCE_SCATTERV + 1);

}  // namespace
}  // namespace tutti::c

using tutti::Code;
using tutti::Status;
using tutti::c::guarded;
using tutti::c::launch;
using tutti::c::null_argument;
using tutti::c::run;

tutti_status_t tutti_start(tutti_comm_t* comm, const tutti_call_t* call,
                           tutti_request_t** request) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_start", "comm");
    if (request == nullptr) return null_argument("tutti_start", "request");
    const auto arguments = tutti::c::arguments_of(comm, tutti::c::described_by(call));
    if (!arguments) return arguments.status();
    return tutti::c::store_request(comm->communicator, request,
                                   [&] { return comm->communicator->start(arguments->call); });
  });
}

tutti_status_t tutti_start_all(tutti_comm_t* comm, const tutti_call_t* const* calls, size_t count,
                               tutti_request_t** requests) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_start_all", "comm");
    if (calls == nullptr && count > 0) return null_argument("tutti_start_all", "calls");
    if (requests == nullptr && count > 0) return null_argument("tutti_start_all", "requests");
    std::fill_n(requests, count, nullptr);
    std::vector<tutti::CollectiveCall> converted;
    std::vector<std::unique_ptr<tutti_request>> handles;
    for (size_t i = 0; i < count; ++i) {
      const auto arguments = tutti::c::arguments_of(comm, tutti::c::described_by(calls[i]));
      if (!arguments) return arguments.status();
      converted.push_back(arguments->call);
      handles.push_back(std::make_unique<tutti_request>());
      handles.back()->communicator = comm->communicator;
    }
    std::vector<tutti::Request> started(count);
    const Status status = tutti::start_all(*comm->communicator, converted, started);
    for (size_t i = 0; i < count && !started[i].empty(); ++i) {
      handles[i]->request = std::move(started[i]);
      requests[i] = handles[i].release();
    }
    return status;
  });
}

tutti_status_t tutti_prepare(tutti_comm_t* comm, const tutti_call_t* call,
                             tutti_prepared_t** prepared) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_prepare", "comm");
    if (prepared == nullptr) return null_argument("tutti_prepare", "prepared");
    const auto arguments = tutti::c::arguments_of(comm, tutti::c::described_by(call));
    if (!arguments) return arguments.status();
    auto made = comm->communicator->prepare(arguments->call);
    if (!made) return made.status();
    *prepared = new tutti_prepared{comm->communicator, std::move(*made)};
    return {};
  });
}

tutti_status_t tutti_prepared_start(tutti_prepared_t* prepared, tutti_request_t** request) {
  return guarded([&]() -> Status {
    if (prepared == nullptr) return null_argument("tutti_prepared_start", "prepared");
    if (request == nullptr) return null_argument("tutti_prepared_start", "request");
    return tutti::c::store_request(prepared->communicator, request,
                                   [&] { return prepared->prepared.start(); });
  });
}

void tutti_prepared_free(tutti_prepared_t* prepared) { delete prepared; }

tutti_status_t tutti_barrier(tutti_comm_t* comm, const tutti_call_options_t* options) {
  return run(comm, options, tutti::c::barrier());
}

tutti_status_t tutti_ibarrier(tutti_comm_t* comm, const tutti_call_options_t* options,
                              tutti_request_t** request) {
  return launch(comm, options, request, tutti::c::barrier());
}

tutti_status_t tutti_broadcast(tutti_comm_t* comm, void* buffer, size_t bytes, uint32_t root,
                               const tutti_call_options_t* options) {
  return run(comm, options, tutti::c::broadcast(buffer, bytes, root));
}

tutti_status_t tutti_ibroadcast(tutti_comm_t* comm, void* buffer, size_t bytes, uint32_t root,
                                const tutti_call_options_t* options, tutti_request_t** request) {
  return launch(comm, options, request, tutti::c::broadcast(buffer, bytes, root));
}

tutti_status_t tutti_allgather(tutti_comm_t* comm, const void* own, void* all, size_t bytes,
                               const tutti_call_options_t* options) {
  return run(comm, options, tutti::c::allgather(own, all, bytes));
}

tutti_status_t tutti_iallgather(tutti_comm_t* comm, const void* own, void* all, size_t bytes,
                                const tutti_call_options_t* options, tutti_request_t** request) {
  return launch(comm, options, request, tutti::c::allgather(own, all, bytes));
}

tutti_status_t tutti_allgatherv(tutti_comm_t* comm, const void* own, void* all, size_t all_bytes,
                                const uint64_t* sizes, const uint64_t* offsets,
                                const tutti_call_options_t* options) {
  return run(comm, options, tutti::c::allgatherv(own, all, all_bytes, sizes, offsets));
}

tutti_status_t tutti_iallgatherv(tutti_comm_t* comm, const void* own, void* all, size_t all_bytes,
                                 const uint64_t* sizes, const uint64_t* offsets,
                                 const tutti_call_options_t* options, tutti_request_t** request) {
  return launch(comm, options, request, tutti::c::allgatherv(own, all, all_bytes, sizes, offsets));
}

tutti_status_t tutti_gather(tutti_comm_t* comm, const void* own, void* all, size_t bytes,
                            uint32_t root, const tutti_call_options_t* options) {
  return run(comm, options, tutti::c::gather(own, all, bytes, root));
}

tutti_status_t tutti_igather(tutti_comm_t* comm, const void* own, void* all, size_t bytes,
                             uint32_t root, const tutti_call_options_t* options,
                             tutti_request_t** request) {
  return launch(comm, options, request, tutti::c::gather(own, all, bytes, root));
}

tutti_status_t tutti_scatter(tutti_comm_t* comm, const void* all, void* own, size_t bytes,
                             uint32_t root, const tutti_call_options_t* options) {
  return run(comm, options, tutti::c::scatter(all, own, bytes, root));
}

tutti_status_t tutti_iscatter(tutti_comm_t* comm, const void* all, void* own, size_t bytes,
                              uint32_t root, const tutti_call_options_t* options,
                              tutti_request_t** request) {
  return launch(comm, options, request, tutti::c::scatter(all, own, bytes, root));
}

tutti_status_t tutti_alltoall(tutti_comm_t* comm, const void* send, void* receive, size_t bytes,
                              const tutti_call_options_t* options) {
  return run(comm, options, tutti::c::alltoall(send, receive, bytes));
}

tutti_status_t tutti_ialltoall(tutti_comm_t* comm, const void* send, void* receive, size_t bytes,
                               const tutti_call_options_t* options, tutti_request_t** request) {
  return launch(comm, options, request, tutti::c::alltoall(send, receive, bytes));
}

tutti_status_t tutti_reduce(tutti_comm_t* comm, const void* own, void* result, size_t count,
                            uint32_t root, const tutti_reduction_t* reduction,
                            const tutti_call_options_t* options) {
  return run(comm, options, tutti::c::reduce(own, result, count, root, reduction));
}

tutti_status_t tutti_ireduce(tutti_comm_t* comm, const void* own, void* result, size_t count,
                             uint32_t root, const tutti_reduction_t* reduction,
                             const tutti_call_options_t* options, tutti_request_t** request) {
  return launch(comm, options, request, tutti::c::reduce(own, result, count, root, reduction));
}

tutti_status_t tutti_reduce_scatter(tutti_comm_t* comm, const void* all, void* own, size_t count,
                                    const tutti_reduction_t* reduction,
                                    const tutti_call_options_t* options) {
  return run(comm, options, tutti::c::reduce_scatter(all, own, count, reduction));
}

tutti_status_t tutti_ireduce_scatter(tutti_comm_t* comm, const void* all, void* own, size_t count,
                                     const tutti_reduction_t* reduction,
                                     const tutti_call_options_t* options,
                                     tutti_request_t** request) {
  return launch(comm, options, request, tutti::c::reduce_scatter(all, own, count, reduction));
}

tutti_status_t tutti_allreduce(tutti_comm_t* comm, const void* own, void* result, size_t count,
                               const tutti_reduction_t* reduction,
                               const tutti_call_options_t* options) {
  return run(comm, options, tutti::c::allreduce(own, result, count, reduction));
}

tutti_status_t tutti_iallreduce(tutti_comm_t* comm, const void* own, void* result, size_t count,
                                const tutti_reduction_t* reduction,
                                const tutti_call_options_t* options, tutti_request_t** request) {
  return launch(comm, options, request, tutti::c::allreduce(own, result, count, reduction));
}

tutti_status_t tutti_gatherv(tutti_comm_t* comm, const void* own, size_t own_bytes, void* all,
                             size_t all_bytes, const uint64_t* sizes, const uint64_t* offsets,
                             uint32_t root, const tutti_call_options_t* options) {
  return run(comm, options,
             tutti::c::gatherv(own, own_bytes, all, all_bytes, sizes, offsets, root));
}

tutti_status_t tutti_igatherv(tutti_comm_t* comm, const void* own, size_t own_bytes, void* all,
                              size_t all_bytes, const uint64_t* sizes, const uint64_t* offsets,
                              uint32_t root, const tutti_call_options_t* options,
                              tutti_request_t** request) {
  return launch(comm, options, request,
                tutti::c::gatherv(own, own_bytes, all, all_bytes, sizes, offsets, root));
}

tutti_status_t tutti_scatterv(tutti_comm_t* comm, const void* all, size_t all_bytes,
                              const uint64_t* sizes, const uint64_t* offsets, void* own,
                              size_t own_bytes, uint32_t root,
                              const tutti_call_options_t* options) {
  return run(comm, options,
             tutti::c::scatterv(all, all_bytes, sizes, offsets, own, own_bytes, root));
}

tutti_status_t tutti_iscatterv(tutti_comm_t* comm, const void* all, size_t all_bytes,
                               const uint64_t* sizes, const uint64_t* offsets, void* own,
                               size_t own_bytes, uint32_t root, const tutti_call_options_t* options,
                               tutti_request_t** request) {
  return launch(comm, options, request,
                tutti::c::scatterv(all, all_bytes, sizes, offsets, own, own_bytes, root));
}

tutti_status_t tutti_alltoallv(tutti_comm_t* comm, const void* send, size_t send_bytes,
                               const uint64_t* send_sizes, const uint64_t* send_offsets,
                               void* receive, size_t receive_bytes, const uint64_t* sizes,
                               const uint64_t* offsets, const tutti_call_options_t* options) {
  return run(comm, options,
             tutti::c::alltoallv(send, send_bytes, send_sizes, send_offsets, receive, receive_bytes,
                                 sizes, offsets));
}

tutti_status_t tutti_ialltoallv(tutti_comm_t* comm, const void* send, size_t send_bytes,
                                const uint64_t* send_sizes, const uint64_t* send_offsets,
                                void* receive, size_t receive_bytes, const uint64_t* sizes,
                                const uint64_t* offsets, const tutti_call_options_t* options,
                                tutti_request_t** request) {
  return launch(comm, options, request,
                tutti::c::alltoallv(send, send_bytes, send_sizes, send_offsets, receive,
                                    receive_bytes, sizes, offsets));
}

tutti_status_t tutti_reduce_scatterv(tutti_comm_t* comm, const void* all, size_t all_bytes,
                                     const uint64_t* sizes, const uint64_t* offsets, void* own,
                                     size_t own_bytes, const tutti_reduction_t* reduction,
                                     const tutti_call_options_t* options) {
  return run(comm, options,
             tutti::c::reduce_scatterv(all, all_bytes, sizes, offsets, own, own_bytes, reduction));
}

tutti_status_t tutti_ireduce_scatterv(tutti_comm_t* comm, const void* all, size_t all_bytes,
                                      const uint64_t* sizes, const uint64_t* offsets, void* own,
                                      size_t own_bytes, const tutti_reduction_t* reduction,
                                      const tutti_call_options_t* options,
                                      tutti_request_t** request) {
  return launch(
      comm, options, request,
      tutti::c::reduce_scatterv(all, all_bytes, sizes, offsets, own, own_bytes, reduction));
}
