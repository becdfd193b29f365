// Communicators of the C interface: creation, duplication and observation.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "handles.hpp"
#include "runtime/aggregator/aggregation_options.hpp"
#include "support.hpp"

namespace tutti::c {
namespace {

Result<CommunicatorOptions> to_options(const tutti_comm_options_t* given) {
  auto read = read_structure(given, "tutti_comm_options_t");
  if (!read) return read.status();
  if (read->peer_timeout_ns < 0 || read->create_timeout_ns < 0) {
    return failure(Code::invalid_argument,
                   "tutti_comm_options_t.{} is {}, which is negative: use 0 or more",
                   read->peer_timeout_ns < 0 ? "peer_timeout_ns" : "create_timeout_ns",
                   read->peer_timeout_ns < 0 ? read->peer_timeout_ns : read->create_timeout_ns);
  }
  CommunicatorOptions options;
  if (read->interface_name != nullptr) options.interface = read->interface_name;
  options.ipv6 = read->ipv6 != 0;
  if (read->subgroups != 0) options.subgroups = read->subgroups;
  options.receive_workers = read->receive_workers;
  options.aggregator_fallback = read->aggregator_fallback != 0;
  if (read->aggregators != nullptr)
    options.aggregators = runtime::list_of_aggregators(read->aggregators);
  if (read->device_name != nullptr) options.device_name = read->device_name;
  if (read->multicast != nullptr) options.multicast = read->multicast;
  options.multicast_hops = read->multicast_hops;
  options.max_connections = read->max_connections;
  if (read->traffic_class != nullptr) options.traffic_class = read->traffic_class;
  options.require_multicast = read->require_multicast != 0;
  if (read->hierarchy != nullptr) options.hierarchy = read->hierarchy;
  if (read->job_key != nullptr) {
    JobKey& key = options.job_key.emplace();
    std::memcpy(key.bytes.data(), read->job_key, key.bytes.size());
  }
  options.segment_bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(read->segment_bytes, UINT32_MAX));
  if (read->chains != 0) options.chains = read->chains;
  options.chunk_bytes = read->chunk_bytes;
  options.window_bytes = read->window_bytes;
  if (read->keep_bytes != 0) options.retain_bytes = read->keep_bytes;
  options.authenticate = read->no_authentication == 0;
  options.always_barrier = read->always_barrier != 0;
  if (read->peer_timeout_ns != 0) options.peer_timeout = Nanoseconds(read->peer_timeout_ns);
  if (read->create_timeout_ns != 0) options.create_timeout = Nanoseconds(read->create_timeout_ns);
  return options;
}

/// The error to return if the communicator gave an empty result. `what` names the result, as in
/// "the counters".
Status unavailable(const Communicator& communicator, const char* what) {
  // All results are empty in a child of fork(), because the communicator belongs to the parent
  // process, and in a completion callback of another engine. status() then returns this error.
  if (Status status = communicator.status(); status.code() == Code::invalid_argument) return status;
  return failure(Code::resource_exhausted, "no memory for {}: free some memory", what);
}

/// Creates a communicator by calling `make` with the converted options, and stores its handle in
/// *comm.
template <typename Make>
Status create(const tutti_comm_options_t* given, tutti_comm_t** comm, Make&& make) {
  auto options = to_options(given);
  if (!options) return options.status();
  auto communicator = make(*options);
  if (!communicator) return communicator.status();
  *comm = std::make_unique<tutti_comm>(std::move(*communicator)).release();
  return {};
}

/// As create(), but for a communicator that may exclude this rank. If this rank is excluded, *part
/// is set to NULL.
template <typename Make>
Status create_part(const tutti_comm_options_t* given, tutti_comm_t** part, Make&& make) {
  auto options = to_options(given);
  if (!options) return options.status();
  auto made = make(*options);
  if (!made) return made.status();
  std::unique_ptr<tutti_comm> handle;
  if (*made) handle = std::make_unique<tutti_comm>(std::move(**made));
  *part = handle.release();
  return {};
}

UniqueId to_id(const tutti_unique_id_t& id) {
  UniqueId copy;
  static_assert(sizeof copy.text == sizeof id.text);
  std::memcpy(copy.text.data(), id.text, sizeof id.text);
  return copy;
}

ExchangeCallback to_callback(tutti_allgather_fn allgather, void* context) {
  return [allgather, context](std::span<const std::byte> mine, std::span<std::byte> all,
                              Nanoseconds timeout) -> Status {
    const tutti_status_t status =
        allgather(mine.data(), all.data(), mine.size(), timeout.count(), context);
    if (status == TUTTI_OK) return {};
    const bool known = status > TUTTI_OK && status <= TUTTI_INTERNAL;
    return failure(
        known ? static_cast<Code>(status) : Code::invalid_argument,
        "the caller's allgather function returned status {} ({}): find the cause in that function",
        status, tutti_status_string(status));
  };
}

}  // namespace
}  // namespace tutti::c

using tutti::Status;
using tutti::c::guarded;
using tutti::c::null_argument;
using tutti::c::unavailable;

tutti_status_t tutti_comm_create(const tutti_comm_options_t* options, tutti_comm_t** comm) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_comm_create", "comm");
    return tutti::c::create(options, comm, [](const tutti::CommunicatorOptions& wanted) {
      return tutti::Communicator::create(wanted);
    });
  });
}

tutti_status_t tutti_unique_id_create(const char* host, tutti_unique_id_t* id) {
  return guarded([&]() -> Status {
    if (id == nullptr) return null_argument("tutti_unique_id_create", "id");
    auto made = tutti::UniqueId::create(host == nullptr ? "" : host);
    if (!made) return made.status();
    std::memcpy(id->text, made->text.data(), sizeof id->text);
    return {};
  });
}

tutti_status_t tutti_unique_id_discard(const tutti_unique_id_t* id) {
  return guarded([&]() -> Status {
    if (id == nullptr) return null_argument("tutti_unique_id_discard", "id");
    tutti::c::to_id(*id).discard();
    return {};
  });
}

tutti_status_t tutti_comm_create_with_id(const tutti_unique_id_t* id, uint32_t rank, uint32_t size,
                                         const tutti_comm_options_t* options, tutti_comm_t** comm) {
  return guarded([&]() -> Status {
    if (id == nullptr) return null_argument("tutti_comm_create_with_id", "id");
    if (comm == nullptr) return null_argument("tutti_comm_create_with_id", "comm");
    return tutti::c::create(options, comm, [&](const tutti::CommunicatorOptions& wanted) {
      return tutti::Communicator::create(tutti::c::to_id(*id), tutti::rank_of(rank), size, wanted);
    });
  });
}

tutti_status_t tutti_comm_create_with_callback(tutti_allgather_fn allgather, void* context,
                                               uint32_t rank, uint32_t size,
                                               const tutti_comm_options_t* options,
                                               tutti_comm_t** comm) {
  return guarded([&]() -> Status {
    if (allgather == nullptr) return null_argument("tutti_comm_create_with_callback", "allgather");
    if (comm == nullptr) return null_argument("tutti_comm_create_with_callback", "comm");
    return tutti::c::create(options, comm, [&](const tutti::CommunicatorOptions& wanted) {
      return tutti::Communicator::create(tutti::c::to_callback(allgather, context),
                                         tutti::rank_of(rank), size, wanted);
    });
  });
}

tutti_status_t tutti_comm_duplicate(tutti_comm_t* comm, const tutti_comm_options_t* options,
                                    tutti_comm_t** duplicate) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_comm_duplicate", "comm");
    if (duplicate == nullptr) return null_argument("tutti_comm_duplicate", "duplicate");
    return tutti::c::create(options, duplicate, [&](const tutti::CommunicatorOptions& wanted) {
      return comm->communicator->duplicate(wanted);
    });
  });
}

tutti_status_t tutti_comm_split(tutti_comm_t* comm, uint32_t color, int64_t key,
                                const tutti_comm_options_t* options, tutti_comm_t** part) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_comm_split", "comm");
    if (part == nullptr) return null_argument("tutti_comm_split", "part");
    return tutti::c::create_part(options, part, [&](const tutti::CommunicatorOptions& wanted) {
      const auto joins = color == TUTTI_NO_COLOR ? std::nullopt : std::optional(color);
      return comm->communicator->split(joins, key, wanted);
    });
  });
}

tutti_status_t tutti_comm_subset(tutti_comm_t* comm, const uint32_t* ranks, size_t count,
                                 const tutti_comm_options_t* options, tutti_comm_t** part) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_comm_subset", "comm");
    if (ranks == nullptr && count > 0) return null_argument("tutti_comm_subset", "ranks");
    if (part == nullptr) return null_argument("tutti_comm_subset", "part");
    std::vector<tutti::Rank> named;
    std::transform(ranks, ranks + count, std::back_inserter(named),
                   [](uint32_t rank) { return tutti::rank_of(rank); });
    return tutti::c::create_part(options, part, [&](const tutti::CommunicatorOptions& wanted) {
      return comm->communicator->subset(named, wanted);
    });
  });
}

void tutti_comm_destroy(tutti_comm_t* comm) { delete comm; }

tutti_status_t tutti_comm_rank(const tutti_comm_t* comm, uint32_t* rank) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_comm_rank", "comm");
    if (rank == nullptr) return null_argument("tutti_comm_rank", "rank");
    *rank = tutti::index(comm->communicator->rank());
    return {};
  });
}

tutti_status_t tutti_comm_size(const tutti_comm_t* comm, uint32_t* size) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_comm_size", "comm");
    if (size == nullptr) return null_argument("tutti_comm_size", "size");
    *size = comm->communicator->size();
    return {};
  });
}

tutti_status_t tutti_comm_abort(tutti_comm_t* comm, const char* reason) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_comm_abort", "comm");
    comm->communicator->abort(reason == nullptr ? "no reason given" : reason);
    return {};
  });
}

tutti_status_t tutti_comm_status(const tutti_comm_t* comm) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_comm_status", "comm");
    return comm->communicator->status();
  });
}

tutti_status_t tutti_comm_finalize(tutti_comm_t* comm, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_comm_finalize", "comm");
    if (timeout_ns < 0) {
      return tutti::failure(tutti::Code::invalid_argument,
                            "tutti_comm_finalize: timeout_ns {} is negative: use 0 or more",
                            timeout_ns);
    }
    return comm->communicator->finalize(tutti::Nanoseconds(timeout_ns));
  });
}

tutti_status_t tutti_comm_counters(const tutti_comm_t* comm, tutti_counter_fn visit,
                                   void* context) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_comm_counters", "comm");
    if (visit == nullptr) return null_argument("tutti_comm_counters", "visit");
    const auto counters = comm->communicator->counters();
    if (counters.empty()) return unavailable(*comm->communicator, "the counters");
    for (const auto& [name, value] : counters) {
      visit(name.c_str(), value, context);
    }
    return {};
  });
}

tutti_status_t tutti_comm_flight_record(const tutti_comm_t* comm, char** json) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_comm_flight_record", "comm");
    if (json == nullptr) return null_argument("tutti_comm_flight_record", "json");
    const std::string record = comm->communicator->flight_record();
    if (record.empty()) return unavailable(*comm->communicator, "the flight record");
    return tutti::c::give_text(record, json);
  });
}

tutti_status_t tutti_comm_describe(const tutti_comm_t* comm, char** text) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("tutti_comm_describe", "comm");
    if (text == nullptr) return null_argument("tutti_comm_describe", "text");
    const std::string described = comm->communicator->describe();
    if (described.empty()) return unavailable(*comm->communicator, "the description");
    return tutti::c::give_text(described, text);
  });
}
