// The steps that create a communicator, from a bootstrap to a context that the engine serves.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/hex.hpp"
#include "crypto/hash.hpp"
#include "device/device.hpp"
#include "device/posix/uncancelled.hpp"
#include "engine/core/clock_exchange.hpp"
#include "observe/log.hpp"
#include "runtime/communicator/closing.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/communicator/device_choice.hpp"
#include "runtime/communicator/membership_check.hpp"
#include "runtime/communicator/option_lookup.hpp"
#include "runtime/diagnostics/flight_dump.hpp"
#include "runtime/diagnostics/rank_trace.hpp"
#include "runtime/hierarchy/hierarchy_shape.hpp"
#include "runtime/keys/key_agreement.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/exception_status.hpp"
#include "runtime/progress/new_thread.hpp"
#include "runtime/routes/engine_route.hpp"

namespace tutti::runtime {

namespace {

constexpr CoreTimes kOwnCore{.yield_interval = Nanoseconds(10'000)};
// Yield times if more ranks than cores share a set of cores. Without a yield, the rank that runs
// first on a core would send its whole block before the other ranks of this core begin.
constexpr CoreTimes kSharedCore{.yield_after = Nanoseconds(500'000)};

/// Longer timeouts are reduced to this value, because their deadlines could overflow.
constexpr Nanoseconds kLongestTimeout = std::chrono::hours(24 * 365);

CommunicatorOptions with_limited_timeouts(CommunicatorOptions options) {
  options.peer_timeout = std::min(options.peer_timeout, kLongestTimeout);
  options.create_timeout = std::min(options.create_timeout, kLongestTimeout);
  return options;
}

engine::Settings engine_settings(const CommunicatorOptions& options) {
  engine::Settings settings;
  settings.chains = options.chains;
  settings.chunk_bytes = options.chunk_bytes;
  settings.window_bytes = options.window_bytes;
  settings.always_barrier = options.always_barrier;
  settings.retain_bytes = options.retain_bytes;
  settings.path_test_interval = options.peer_timeout / 5;
  settings.limit_close_linger(options.peer_timeout);
  return settings;
}

/// The number of receive workers: from the options if set there, else from TUTTI_RECEIVE_WORKERS.
Result<std::uint32_t> receive_workers(const CommunicatorOptions& options) {
  std::uint32_t workers = options.receive_workers;
  const std::string text = variable_or_empty("TUTTI_RECEIVE_WORKERS");
  if (workers != 0 || text.empty()) return workers;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, workers);
  if (error == std::errc{} && rest == end) return workers;
  return failure(Code::invalid_argument,
                 "TUTTI_RECEIVE_WORKERS=\"{}\" is not a number of threads: use 1 or more, or 0 "
                 "for none",
                 text);
}

std::vector<std::string> host_names(const std::vector<PeerOptions>& greetings) {
  std::vector<std::string> names;
  for (const PeerOptions& greeting : greetings)
    names.push_back(fmt::format("{}:{}", greeting.host, greeting.process));
  return names;
}

void complain_of(const Status& status) {
  if (!status) observe::complain(status.message());
}

/// Deletes a communicator after its last reference has gone. If this happens in a completion
/// callback, a new thread deletes it: the engine may still be polling the communicator.
void leave(CommunicatorImpl* last) {
  const device::Uncancelled uncancelled;
  if (!last->check_home()) return device::abandon(last);
  if (!last->progress() || last->progress()->caller_may_wait()) return delete last;
  logged([last] { in_new_thread([last] { delete last; }); });
}

}  // namespace

/// The steps of `create`, which build one communicator.
class CommunicatorImpl::Creation {
 public:
  Creation(CommunicatorImpl& made, Bootstrap& bootstrap, const CommunicatorOptions& options,
           CommunicatorRole role)
      : made_(made),
        bootstrap_(bootstrap),
        options_(with_limited_timeouts(options)),
        role_(std::move(role)) {}

  Status run();

 private:
  Status read_environment();
  Result<PeerOptions> own_options() const;
  Status greet(KeyAgreement& keys);
  Status take_greetings(KeyAgreement& keys, const std::vector<Bytes>& contributions);
  Status in_job(const Status& status) const;
  Result<std::unique_ptr<device::Endpoint>> open_endpoint(const KeyAgreement& keys);
  Status open();
  void plan_calls();
  Status confirm_membership(Nanoseconds timeout);
  void use_shorter_datagrams(const NarrowPath& narrow);
  void report_lost_multicast();
  Result<std::unique_ptr<RankTrace>> begin_trace(const std::string& directory, Nanoseconds timeout);
  Result<engine::ClockComparison> compare_clocks(Nanoseconds timeout);
  Status exchange_clocks(engine::ClockComparison& comparison, Nanoseconds timeout);
  Status create_progress(std::unique_ptr<RankTrace> trace);
  Status serve();
  void join_trace();
  void arrange_dumps();
  CallerFacts facts() const;

  CommunicatorImpl& made_;
  Bootstrap& bootstrap_;
  CommunicatorOptions options_;
  CommunicatorRole role_;
  std::uint32_t workers_ = 0;
  std::uint32_t max_connections_ = 0;
  PriorityRequest priority_;
  ExchangeView view_{};
  Result<std::string> traces_ = std::string();  ///< directory of TUTTI_TRACE; empty: no trace
};

Result<std::shared_ptr<CommunicatorImpl>> CommunicatorImpl::create(
    Bootstrap& bootstrap, const CommunicatorOptions& options, std::shared_ptr<Progress> progress,
    CommunicatorRole role) {
  std::shared_ptr<CommunicatorImpl> made(new CommunicatorImpl(), leave);
  made->number_ = role.number;
  made->bootstrap_ = bootstrap.description();
  made->progress_ = std::move(progress);
  if (Status status = Creation(*made, bootstrap, options, std::move(role)).run(); !status)
    return status;
  return made;
}

Status CommunicatorImpl::Creation::run() {
  if (Status status = read_environment(); !status) return status;
  if (Status status = open(); !status) return status;
  if (Status status = confirm_membership(options_.create_timeout); !status) return status;
  report_lost_multicast();
  plan_calls();
  auto trace = begin_trace(*traces_, options_.create_timeout);
  if (!trace) return trace.status();
  if (!made_.progress_) {
    if (Status status = create_progress(std::move(*trace)); !status) return status;
  }
  if (Status status = serve(); !status) return status;
  join_trace();
  arrange_dumps();
  return {};
}

Status CommunicatorImpl::Creation::read_environment() {
  auto workers = receive_workers(options_);
  if (!workers) return workers.status();
  workers_ = *workers;
  const auto connections = max_connections(options_);
  if (!connections) return connections.status();
  max_connections_ = *connections;
  auto priority = progress_priority();
  if (!priority) return priority.status();
  priority_ = *priority;
  if (role_.traced_by_wish && !made_.progress_) traces_ = trace_directory();
  return {};
}

/// The peer options of this rank.
Result<PeerOptions> CommunicatorImpl::Creation::own_options() const {
  PeerOptions own = make_greeting(options_, made_.number_, role_.choices.preferred());
  if (!role_.name.empty()) own.host = role_.name;
  auto wanted = wanted_device(options_);
  if (!wanted) return wanted.status();
  own.device = std::move(*wanted);
  // Only checks the traffic classes, because a rank with wrong options must fail before the
  // exchanges with other ranks. The device gets the traffic classes later.
  if (const auto traffic = traffic_classes(options_); !traffic) return traffic.status();
  auto multicast = wanted_multicast(options_);
  if (!multicast) return multicast.status();
  own.multicast = std::move(*multicast);
  auto hops = multicast_hops(options_);
  if (!hops) return hops.status();
  own.options.multicast_hops = *hops;
  const auto required = requires_multicast(options_);
  if (!required) return required.status();
  own.options.require_multicast = *required;
  const auto shape = HierarchyShape::wanted(options_);
  if (!shape) return shape.status();
  own.hierarchy = shape->text();
  own.network_wanted = wants_network(options_, workers_, own.multicast);
  own.traced = traces_.ok() && !traces_->empty();
  if (!traces_.ok()) own.trace_error = traces_.status().message();
  return own;
}

/// The first exchange of the creation: key offers and peer options.
Status CommunicatorImpl::Creation::greet(KeyAgreement& keys) {
  const auto own = own_options();
  if (!own) return own.status();
  const auto first = keys.first(own->encode());
  if (!first) return first.status();
  auto contributions = bootstrap_.allgather(*first, options_.create_timeout);
  if (!contributions) return contributions.status();
  if (Status status = take_greetings(keys, *contributions); !status) return in_job(status);
  // Each rank proposes a communicator number above all that it has used, so no rank has used the
  // highest proposed number.
  for (const PeerOptions& one : made_.greetings_)
    made_.number_ = std::max(made_.number_, one.communicator);
  std::array<std::byte, 4> name{};
  if (Status status = keys.public_bytes("tutti job name 1", name); !status) return status;
  made_.job_name_ = to_hex(name);
  return {};
}

/// Reads and compares the contributions to the first exchange.
Status CommunicatorImpl::Creation::take_greetings(KeyAgreement& keys,
                                                  const std::vector<Bytes>& contributions) {
  const auto peer_options = keys.take_first(contributions);
  if (!peer_options) return peer_options.status();
  for (std::size_t r = 0; r < peer_options->size(); ++r) {
    auto greeting = PeerOptions::decode((*peer_options)[r]);
    if (!greeting)
      return failure_of({rank_of(r)}, Code::invalid_argument,
                        "cannot use the options of rank {}: {}", r, greeting.status().message());
    made_.greetings_.push_back(std::move(*greeting));
  }
  if (Status status = check_agreement(made_.greetings_); !status) return status;
  return check_traces(made_.greetings_);
}

/// Converts the ranks at fault of `status` to their numbers in the job.
Status CommunicatorImpl::Creation::in_job(const Status& status) const {
  const engine::RankNames names({}, role_.members);
  return Status(status.code(), status.message(),
                names.in_job({status.ranks().begin(), status.ranks().end()}));
}

/// Opens this rank's endpoint. The addresses of its multicast groups are derived from `keys`.
Result<std::unique_ptr<device::Endpoint>> CommunicatorImpl::Creation::open_endpoint(
    const KeyAgreement& keys) {
  device::EndpointOptions endpoint_options{.rank = bootstrap_.rank(),
                                           .size = bootstrap_.size(),
                                           .communicator = made_.number_,
                                           .subgroups = options_.subgroups,
                                           .group_seed = {},
                                           .local_ranks = {},
                                           .peer_timeout = options_.peer_timeout,
                                           .accept_big_endian_atomics = true};
  if (Status status = keys.public_bytes("tutti groups 1", endpoint_options.group_seed); !status)
    return status;
  auto chosen =
      choose_device(options_, made_.greetings_, bootstrap_.rank(), endpoint_options.local_ranks);
  if (!chosen) return chosen.status();
  made_.device_ = (*chosen)->name();
  if (made_.device_ == "ip") endpoint_options.max_connections = max_connections_;
  return (*chosen)->open(endpoint_options);
}

/// Runs the two exchanges of the creation: first key offers and peer options, then the secret and
/// the addresses. Opens this rank's endpoint between the two exchanges.
Status CommunicatorImpl::Creation::open() {
  if (options_.subgroups == 0)
    return failure(Code::invalid_argument, "the number of subgroups is 0: use 1 or more");
  if (options_.peer_timeout <= Nanoseconds(0))
    return failure(Code::invalid_argument, "peer_timeout is {} ns: use a time above 0",
                   options_.peer_timeout.count());
  auto keys = KeyAgreement::begin(bootstrap_.rank(), bootstrap_.size(), role_.key);
  if (!keys) return keys.status();
  if (Status status = greet(*keys); !status) return status;
  auto endpoint = open_endpoint(*keys);
  // A rank that cannot open its endpoint still takes part in the second exchange and contributes no
  // bytes: otherwise the other ranks would wait for it until the timeout.
  Result<Bytes> own = endpoint ? keys->second((*endpoint)->address()) : endpoint.status();
  auto addresses = bootstrap_.allgather(own ? *own : Bytes(), options_.create_timeout);
  if (!own) return own.status();
  if (!addresses) return addresses.status();
  for (std::size_t r = 0; r < addresses->size(); ++r) {
    if ((*addresses)[r].empty()) {
      return in_job(failure_of({rank_of(r)}, Code::peer_failed,
                               "rank {} ({}) could not open its network endpoint: see the error "
                               "of that rank",
                               r, made_.greetings_[r].host));
    }
  }
  const auto secret = keys->take_second(*addresses);
  if (!secret) return secret.status();
  view_ = keys->view();
  auto child_key = crypto::derive(*secret, "tutti child key 1");
  if (!child_key) return child_key.status();
  made_.child_key_ = std::move(*child_key);
  if (options_.authenticate) {
    if (Status status = (*endpoint)->use_secret(secret->bytes()); !status) return status;
  }
  if (Status status = (*endpoint)->connect(*addresses); !status) return status;

  engine::Settings settings = engine_settings(options_);
  settings.first_epoch = role_.first_epoch;
  made_.context_ = std::make_unique<engine::CommunicatorContext>(
      bootstrap_.rank(), bootstrap_.size(), settings, std::move(*endpoint),
      engine::RankNames(host_names(made_.greetings_), role_.members, role_.job_size));
  return {};
}

void CommunicatorImpl::Creation::plan_calls() {
  made_.calls_ = std::make_unique<CallPlanner>(facts(), std::move(role_.choices));
  const std::string complaint = made_.calls_->complaint();
  if (!complaint.empty() && made_.rank() == Rank{0}) observe::warn(complaint);
}

CallerFacts CommunicatorImpl::Creation::facts() const {
  std::set<std::string> networks;
  for (const PeerOptions& one : made_.greetings_) networks.insert(one.network);
  CallerFacts facts{.rank = made_.rank(),
                    .size = made_.size(),
                    .hosts = static_cast<std::uint32_t>(networks.size()),
                    .max_data_bytes = made_.context_->messages().max_data_bytes(),
                    .chunk_bytes = made_.context_->settings().chunk_bytes,
                    .device = made_.device_,
                    .no_multicast = made_.no_multicast_};
  const device::SlotExchange* slots = made_.context_->endpoint().slot_exchange();
  if (slots != nullptr && made_.no_multicast_.empty()) {
    facts.max_slot_bytes = slots->max_block_bytes();
  }
  return facts;
}

/// Finds out whether all ranks have the same exchange view, which they must, and whether the
/// network passes multicast. Without multicast rank 0 logs a warning, or the creation fails if it
/// is required.
Status CommunicatorImpl::Creation::confirm_membership(Nanoseconds timeout) {
  const bool shared_memory = made_.device_ == "host";
  const bool wanted = shared_memory || made_.greetings_.front().multicast != "none";
  auto findings =
      check_membership(*made_.context_, host_names(made_.greetings_), view_, wanted, timeout);
  if (!findings) return findings.status();
  if (findings->narrow) use_shorter_datagrams(*findings->narrow);
  MulticastGap gap = std::move(findings->gap);
  if (!wanted) gap = {"the option multicast, or TUTTI_MULTICAST, is \"none\"", {}};
  if (gap.text.empty() || made_.size() == 1) return {};
  if (made_.greetings_.front().options.require_multicast)
    return failure_of(gap.ranks, Code::unsupported, "multicast is required, but {}. {}", gap.text,
                      kMulticastRemedy);
  if (wanted && made_.rank() == Rank{0}) {
    observe::warn(fmt::format(
        "The network does not pass multicast: {}. The collectives go from rank to rank and put "
        "more bytes on the links. {}. TUTTI_MULTICAST=none omits this check, "
        "TUTTI_REQUIRE_MULTICAST=1 makes it an error",
        gap.text, kMulticastRemedy));
  }
  made_.no_multicast_ = std::move(gap.text);
  return {};
}

void CommunicatorImpl::Creation::use_shorter_datagrams(const NarrowPath& narrow) {
  made_.context_->limit_datagrams(narrow.bytes);
  if (made_.rank() != Rank{0}) return;
  observe::warn(fmt::format(
      "The network has a narrow path: {}. All ranks use datagrams of {} bytes, which costs "
      "throughput. {}",
      narrow.text, narrow.bytes, kNarrowPathRemedy));
}

/// Makes this rank log a warning if it no longer receives the multicast of another rank.
void CommunicatorImpl::Creation::report_lost_multicast() {
  engine::CommunicatorContext& context = *made_.context_;
  context.receiver().membership().on_report([&context](Rank source, const Status& joined) {
    const engine::RankNames& names = context.names();
    observe::warn(fmt::format(
        "{} no longer receives multicast from {}, even after it has rejoined its groups{} ({}). "
        "It fetches the missing chunks, so results are correct, but calls are slow. {}. "
        "TUTTI_MULTICAST=none starts the next job without multicast",
        names.of(context.rank()), names.of(source),
        joined.ok() ? "" : fmt::format(" ({})", joined.message()), context.endpoint().description(),
        kMulticastRemedy));
  });
}

/// Begins the trace of this rank; returns null if this rank is not traced. All ranks take part in
/// the clock exchange if any rank is traced.
Result<std::unique_ptr<RankTrace>> CommunicatorImpl::Creation::begin_trace(
    const std::string& directory, Nanoseconds timeout) {
  const bool any = std::any_of(made_.greetings_.begin(), made_.greetings_.end(),
                               [](const PeerOptions& one) { return one.traced; });
  if (!any) return std::unique_ptr<RankTrace>();
  auto comparison = compare_clocks(timeout);
  if (!comparison) return comparison.status();
  if (directory.empty()) return std::unique_ptr<RankTrace>();
  const TraceOwner owner{.directory = directory,
                         .job = made_.job_name_,
                         .rank = made_.rank(),
                         .size = made_.size(),
                         .name = host_names(made_.greetings_)[index(made_.rank())]};
  return std::make_unique<RankTrace>(owner, *comparison, clock_identity());
}

Result<engine::ClockComparison> CommunicatorImpl::Creation::compare_clocks(Nanoseconds timeout) {
  engine::ClockComparison comparison;
  comparison.origin = now();
  if (made_.size() == 1) return comparison;
  const Status status = guarded([&] { return exchange_clocks(comparison, timeout); });
  if (status.ok()) return comparison;
  // A failed clock exchange may still be under way and write to `comparison`, a variable of this
  // function. The exchange is therefore ended before the function returns.
  end_operations(*made_.context_, status);
  return status;
}

Status CommunicatorImpl::Creation::exchange_clocks(engine::ClockComparison& comparison,
                                                   Nanoseconds timeout) {
  auto exchange = std::make_unique<engine::ClockExchange>(now, clock_identity(), comparison);
  const std::shared_ptr<engine::Completion> end = exchange->completion();
  const Instant deadline = now() + timeout;
  made_.context_->operations().submit(std::move(exchange));
  while (!end->done.load(std::memory_order_acquire) && now() < deadline) {
    if (!made_.context_->poll(now())) wait_readable(made_.context_->endpoint());
  }
  if (end->done.load(std::memory_order_acquire)) return end->status;
  return failure(Code::timeout,
                 "rank {} did not finish the clock exchange for TUTTI_TRACE within {} s: find the "
                 "rank that does not answer, or unset TUTTI_TRACE",
                 index(made_.rank()), timeout.count() / 1'000'000'000);
}

Status CommunicatorImpl::Creation::create_progress(std::unique_ptr<RankTrace> trace) {
  const Rank me = bootstrap_.rank();
  const auto rivals = ranks_sharing(made_.greetings_, me, &PeerOptions::processors);
  const double cores = allowed_core_count();
  const auto wanted = static_cast<double>(rivals.size());
  CoreTimes times = wanted <= cores ? kOwnCore : kSharedCore;
  // At real-time priority, ranks that share cores may together use at most half of the time of
  // these cores.
  times.realtime_share = 0.5 * std::min(1.0, cores / wanted);
  // If a host has several ranks, they wait for each other's threads rather than for the network, so
  // their threads stay at normal priority.
  const auto neighbours = ranks_sharing(made_.greetings_, me, &PeerOptions::network);
  if (neighbours.size() > 1) priority_.realtime = false;
  auto created = Progress::create(times, priority_, std::move(trace));
  if (!created) return created.status();
  made_.progress_ = std::move(*created);
  return {};
}

Status CommunicatorImpl::Creation::serve() {
  made_.add_route(std::make_shared<EngineRoute>(*made_.context_, *made_.calls_, *made_.progress_));
  // Each subgroup needs at most one receive worker, and a rank without peers needs none.
  const std::uint32_t subgroups = made_.context_->endpoint().subgroup_count();
  const std::uint32_t useful = made_.size() == 1 ? 0 : std::min(workers_, subgroups);
  if (Status status = made_.progress_->add(*made_.context_, useful); !status) return status;
  made_.served_ = true;
  made_.receive_workers_ = useful;
  return {};
}

void CommunicatorImpl::Creation::join_trace() {
  RankTrace* const trace = made_.progress_->trace();
  if (trace == nullptr) return;
  made_.progress_->with_engine([&] {
    made_.context_->trace_to(std::make_unique<observe::CommunicatorTrace>(
        trace->tasks(), made_.number_, std::move(role_.members)));
  });
}

/// Arranges flight dumps after a failure and on a signal, if the environment asks for them.
void CommunicatorImpl::Creation::arrange_dumps() {
  const std::string directory = flight_directory();
  RankTrace* const trace = made_.progress_->trace();
  if (directory.empty() && trace == nullptr) return;
  made_.progress_->with_engine([&] {
    made_.context_->failures().on_failure([made = &made_, directory, trace](const Status& why) {
      // The trace is written before the application gets the error, because the application may end
      // the process when it gets the error.
      if (trace != nullptr) complain_of(trace->write());
      if (directory.empty()) return;
      complain_of(write_flight_dump(directory, *made, why.to_string()));
    });
  });
  if (!directory.empty()) complain_of(dump_on_signal(made_.weak_from_this()));
}

}  // namespace tutti::runtime
