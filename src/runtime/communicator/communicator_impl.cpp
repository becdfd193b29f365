#include "runtime/communicator/communicator_impl.hpp"

#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "device/device.hpp"
#include "observe/log.hpp"
#include "protocol/membership.hpp"
#include "runtime/aggregator/aggregator_client.hpp"
#include "runtime/communicator/call_check.hpp"
#include "runtime/communicator/device_choice.hpp"
#include "runtime/diagnostics/flight_dump.hpp"
#include "runtime/diagnostics/rank_trace.hpp"
#include "runtime/hierarchy/hierarchy.hpp"
#include "runtime/progress/clock.hpp"

namespace tutti::runtime {

namespace {

constexpr Nanoseconds kProbeInterval{5'000'000};
// How long a rank that closes serves peers that have not acknowledged its last messages.
constexpr Nanoseconds kCloseLinger{2'000'000'000};
constexpr Nanoseconds kFailedLinger{50'000'000};
constexpr CoreTimes kOwnCore{.spin = Nanoseconds(100'000)};
// More ranks than cores. Who began a collective first kept the others of its core from beginning it
// until all its block had left: Allgather of 1 MiB among 8 ranks on 2 cores 19.6 -> 13.5 ms, of 256
// KiB 5.5 -> 4.9 ms. A shorter first turn: Allreduce of 1 MiB by an aggregator, 8 ranks on links of
// 1 Gbit/s, 9.85 -> 9.55 ms.
constexpr CoreTimes kSharedCore{.spin = Nanoseconds(20'000),
                                .yield_after = Nanoseconds(500'000),
                                .first_yield_after = Nanoseconds(100'000)};

engine::Settings engine_settings(const CommunicatorOptions& options) {
  engine::Settings settings;
  settings.chains = options.chains;
  settings.chunk_bytes = options.chunk_bytes;
  settings.window_bytes = options.window_bytes;
  settings.always_barrier = options.always_barrier;
  settings.first_epoch = options.first_sequence;
  settings.retain_bytes = options.retain_bytes;
  settings.path_test_interval = options.peer_timeout / 2;
  return settings;
}

/// As many as the options ask for, else the environment.
Result<std::uint32_t> receive_workers(const CommunicatorOptions& options) {
  std::uint32_t workers = options.receive_workers;
  const char* text = std::getenv("TUTTI_RECEIVE_WORKERS");
  if (workers != 0 || text == nullptr) return workers;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, workers);
  if (error == std::errc{} && rest == end) return workers;
  return failure(Code::invalid_argument,
                 "TUTTI_RECEIVE_WORKERS is \"{}\"; give a number of threads, 0 for none", text);
}

std::vector<std::string> host_names(const std::vector<PeerOptions>& greetings) {
  std::vector<std::string> names;
  for (const PeerOptions& greeting : greetings)
    names.push_back(fmt::format("{}:{}", greeting.host, greeting.process));
  return names;
}

}  // namespace

Result<std::shared_ptr<CommunicatorImpl>> CommunicatorImpl::create(
    Bootstrap& bootstrap, const CommunicatorOptions& options, std::shared_ptr<Progress> progress,
    CommunicatorRole role) {
  std::shared_ptr<CommunicatorImpl> state(new CommunicatorImpl());
  state->number_ = role.number;
  state->bootstrap_ = bootstrap.description();
  state->progress_ = std::move(progress);
  auto workers = receive_workers(options);
  if (!workers) return workers.status();
  auto precedence = progress_priority();
  if (!precedence) return precedence.status();
  const bool begins_trace = role.traced_by_wish && !state->progress_;
  Result<std::string> traces = begins_trace ? trace_directory() : Result<std::string>("");
  if (Status status = state->open(bootstrap, options, role, *workers, traces); !status)
    return status;
  state->calls_ = std::make_unique<CallPlanner>(state->facts(), std::move(role.choices));
  const std::string complaint = state->calls_->complaint();
  if (!complaint.empty() && state->rank() == Rank{0}) observe::complain(complaint);
  if (Status status = state->confirm_membership(options.create_timeout); !status) return status;
  auto trace = state->begin_trace(*traces, options.create_timeout);
  if (!trace) return trace.status();
  if (!state->progress_) {
    const auto rivals =
        ranks_sharing(state->greetings_, bootstrap.rank(), &PeerOptions::processors);
    const double cores = std::thread::hardware_concurrency();
    const auto wanted = static_cast<double>(rivals.size());
    CoreTimes times = wanted <= cores ? kOwnCore : kSharedCore;
    times.realtime_share =
        0.5 * std::min(1.0, cores / wanted);  // half of the cores for all of them
    // Ranks of one host wait for each other's threads rather than for the network.
    const auto neighbours =
        ranks_sharing(state->greetings_, bootstrap.rank(), &PeerOptions::network);
    if (neighbours.size() > 1) precedence->realtime = false;
    auto created = Progress::create(times, *precedence, std::move(*trace));
    if (!created) return created.status();
    state->progress_ = *created;
  }
  // No more than there are subgroups to receive, and none where there is nobody to receive from.
  const std::uint32_t subgroups = state->context_->endpoint().subgroup_count();
  const std::uint32_t useful = state->size() == 1 ? 0 : std::min(*workers, subgroups);
  if (Status status = state->progress_->add(*state->context_, useful); !status) return status;
  state->served_ = true;
  state->join_trace(role.members);
  state->arrange_dumps();
  return state;
}

CallerFacts CommunicatorImpl::facts() const {
  std::set<std::string> networks;
  for (const PeerOptions& one : greetings_) networks.insert(one.network);
  CallerFacts facts{.rank = rank(),
                    .size = size(),
                    .hosts = static_cast<std::uint32_t>(networks.size()),
                    .max_data_bytes = context_->max_data_bytes(),
                    .device = device_};
  if (const device::SlotExchange* slot_exchange = context_->endpoint().slot_exchange()) {
    facts.max_slot_bytes = slot_exchange->max_block_bytes();
  }
  return facts;
}

void CommunicatorImpl::arrange_dumps() {
  const std::string directory = flight_directory();
  RankTrace* const trace = progress_->trace();
  if (directory.empty() && trace == nullptr) return;
  const auto complain = [](const Status& status) {
    if (!status) observe::complain(status.message());
  };
  progress_->with_engine([&] {
    context_->on_failure([this, directory, trace, complain](const Status& why) {
      // Whoever hears of the failure may end the process.
      if (trace != nullptr) complain(trace->write());
      if (directory.empty()) return;
      complain(write_flight_dump(directory, *context_, number_, why.to_string()));
    });
  });
  if (!directory.empty()) complain(dump_on_signal(weak_from_this()));
}

CommunicatorImpl::~CommunicatorImpl() {
  aggregation_.reset();
  hierarchy_.reset();
  if (served_) progress_->remove(*context_);
  if (context_) drain();
}

// Our last messages may have been lost, and nobody else repeats them: a neighbour would wait for
// us.
void CommunicatorImpl::drain() {
  // A failure that was noted, and not carried out yet, is news for the others, too.
  context_->poll(now());
  context_->part(now());
  while (context_->retains_blocks() && context_->failure_status().ok()) {
    context_->poll(now());
    wait_readable();
  }
  const bool well = context_->failure_status().ok();
  linger(well ? kCloseLinger : kFailedLinger);
  if (!well) return;
  context_->announce_close(now());
  // Who has gone at the same moment does not answer.
  linger(kFailedLinger);
}

/// Until nothing waits for a peer, but not for ever.
void CommunicatorImpl::linger(Nanoseconds patience) {
  const Instant deadline = now() + patience;
  while (!context_->quiet() && now() < deadline) {
    context_->poll(now());
    wait_readable();
  }
}

/// For a moment at most: who closes or comes has deadlines of its own to look at.
void CommunicatorImpl::wait_readable() {
  device::Endpoint& endpoint = context_->endpoint();
  pollfd ready{endpoint.wait_descriptor(), POLLIN, 0};
  if (ready.fd >= 0 && endpoint.prepare_wait()) (void)::poll(&ready, 1, 1);
}

Status CommunicatorImpl::open(Bootstrap& bootstrap, const CommunicatorOptions& options,
                              const CommunicatorRole& role, std::uint32_t workers,
                              const Result<std::string>& traces) {
  const Rank me = bootstrap.rank();
  const std::uint32_t size = bootstrap.size();
  if (options.subgroups == 0) return failure(Code::invalid_argument, "subgroups start at 1");
  PeerOptions own = make_greeting(options, number_, role.choices.preferred());
  if (!role.name.empty()) own.host = role.name;
  auto wanted = wanted_device(options);
  if (!wanted) return wanted.status();
  own.device = std::move(*wanted);
  auto multicast = wanted_multicast(options);
  if (!multicast) return multicast.status();
  own.multicast = std::move(*multicast);
  const auto shape = HierarchyShape::wanted(options);
  if (!shape) return shape.status();
  own.hierarchy = shape->text();
  own.network_wanted = wants_network(options, workers, own.multicast);
  own.traced = traces.ok() && !traces->empty();
  if (!traces.ok()) own.trace_error = traces.status().message();
  auto greetings = bootstrap.allgather(own.encode(), options.create_timeout);
  if (!greetings) return greetings.status();
  for (std::size_t r = 0; r < greetings->size(); ++r) {
    auto greeting = PeerOptions::decode((*greetings)[r]);
    if (!greeting)
      return failure(Code::invalid_argument, "rank {}: {}", r, greeting.status().message());
    greetings_.push_back(std::move(*greeting));
  }
  if (Status status = check_agreement(greetings_); !status) return status;
  if (Status status = check_traces(greetings_); !status) return status;

  device::EndpointOptions endpoint_options{.rank = me,
                                           .size = size,
                                           .communicator = number_,
                                           .subgroups = options.subgroups,
                                           .secret = {},
                                           .group_seed = greetings_[0].secret,
                                           .local_ranks = {},
                                           .peer_timeout = options.peer_timeout};
  if (options.authenticate) endpoint_options.secret = greetings_[0].secret;
  auto chosen = choose_device(options, greetings_, me, endpoint_options.local_ranks);
  if (!chosen) return chosen.status();
  const std::shared_ptr<device::Device> device = std::move(*chosen);
  device_ = device->name();
  auto endpoint = device->open(endpoint_options);
  // A rank that cannot open its endpoint says so, or the others would wait for it.
  Bytes address;
  if (endpoint) address = (*endpoint)->address();
  auto addresses = bootstrap.allgather(address, options.create_timeout);
  if (!endpoint) return endpoint.status();
  if (!addresses) return addresses.status();
  for (std::size_t r = 0; r < addresses->size(); ++r) {
    if ((*addresses)[r].empty()) {
      return failure(Code::peer_failed,
                     "rank {} ({}) could not open its network endpoint; its own "
                     "message says why",
                     r, greetings_[r].host);
    }
  }
  if (Status status = (*endpoint)->connect(*addresses); !status) return status;

  const engine::Settings settings = engine_settings(options);
  context_ = std::make_unique<engine::CommunicatorContext>(me, size, settings, std::move(*endpoint),
                                                           host_names(greetings_));
  return {};
}

Status CommunicatorImpl::confirm_membership(Nanoseconds timeout) {
  if (size() == 1) return {};
  const std::uint32_t subgroups = context_->endpoint().subgroup_count();
  protocol::Membership membership(rank(), size(), subgroups);
  auto planned = calls_->plan({.collective = Collective::barrier});
  if (!planned) return planned.status();
  auto made = calls_->make(*planned);
  if (!made) return made.status();
  std::unique_ptr<engine::Operation> barrier = std::move(*made);
  const std::shared_ptr<engine::Completion> everybody = barrier->completion();
  const Instant deadline = now() + timeout;
  Instant next_probe{};
  std::uint32_t attempt = 0;
  while (!everybody->done.load(std::memory_order_acquire)) {
    const Instant at = now();
    if (at >= deadline) break;
    if (at >= next_probe) {
      for (std::uint32_t s = 0; s < subgroups; ++s) {
        const Status sent = context_->endpoint().multicast(s).post_probe(attempt);
        if (!sent.ok()) return sent;
      }
      ++attempt;
      next_probe = at + kProbeInterval;
    }
    context_->poll(at);
    for (const auto& probe : context_->take_probes()) {
      membership.on_probe(probe.source, probe.subgroup);
    }
    // Whoever hears everybody says so; when all have said it, all hear all.
    if (barrier && membership.complete()) context_->submit(std::move(barrier));
    wait_readable();
  }
  if (everybody->done.load(std::memory_order_acquire)) return everybody->status;
  std::vector<std::uint32_t> deaf;
  for (const Rank one : membership.missing()) deaf.push_back(index(one));
  if (deaf.empty()) {
    return failure(
        Code::timeout,
        "rank {} hears every rank's multicast, but another rank does not, after {} s; that "
        "rank's own message names what it misses",
        index(rank()), timeout.count() / 1'000'000'000);
  }
  return failure(Code::timeout,
                 "rank {} ({}) hears no multicast from rank(s) {} after {} s. Remedies: the switch "
                 "needs an IGMP querier where it snoops; a firewall must let UDP to 239.192.0.0/14 "
                 "pass; TUTTI_INTERFACE must name the same network on all hosts (`tutti info`)",
                 index(rank()), greetings_[index(rank())].host, fmt::join(deaf, ", "),
                 timeout.count() / 1'000'000'000);
}

/// Null where this rank is not traced. All ranks help where one is: its clock is compared.
Result<std::unique_ptr<RankTrace>> CommunicatorImpl::begin_trace(const std::string& directory,
                                                                 Nanoseconds timeout) {
  const bool any = std::any_of(greetings_.begin(), greetings_.end(),
                               [](const PeerOptions& one) { return one.traced; });
  if (!any) return std::unique_ptr<RankTrace>();
  auto comparison = compare_clocks(timeout);
  if (!comparison) return comparison.status();
  if (directory.empty()) return std::unique_ptr<RankTrace>();
  // What names the job is drawn from its secret, and does not tell it.
  std::uint32_t job = 2166136261u;
  for (const std::byte byte : greetings_.front().secret) {
    job = (job ^ std::to_integer<std::uint32_t>(byte)) * 16777619u;
  }
  const TraceOwner owner{.directory = directory,
                         .job = fmt::format("{:08x}", job),
                         .rank = rank(),
                         .size = size(),
                         .name = host_names(greetings_)[index(rank())]};
  return std::make_unique<RankTrace>(owner, *comparison, clock_identity());
}

Result<engine::ClockComparison> CommunicatorImpl::compare_clocks(Nanoseconds timeout) {
  engine::ClockComparison comparison;
  comparison.origin = now();
  if (size() == 1) return comparison;
  auto exchange = std::make_unique<engine::ClockExchange>(now, clock_identity(), comparison);
  const std::shared_ptr<engine::Completion> end = exchange->completion();
  const Instant deadline = now() + timeout;
  context_->submit(std::move(exchange));
  while (!end->done.load(std::memory_order_acquire) && now() < deadline) {
    if (!context_->poll(now())) wait_readable();
  }
  if (end->done.load(std::memory_order_acquire) && end->status.ok()) return comparison;
  if (!end->done.load(std::memory_order_acquire)) {
    // The exchange writes to what we are about to leave.
    context_->abort("the clocks were not compared in time");
    context_->poll(now());
    return failure(Code::timeout,
                   "TUTTI_TRACE: the ranks' clocks were not compared after {} s at rank {}",
                   timeout.count() / 1'000'000'000, index(rank()));
  }
  return end->status;
}

void CommunicatorImpl::join_trace(std::vector<Rank> members) {
  RankTrace* trace = progress_->trace();
  if (trace == nullptr) return;
  progress_->with_engine([&] {
    context_->trace_to(
        std::make_unique<observe::CommunicatorTrace>(trace->tasks(), number_, std::move(members)));
  });
}

Status CommunicatorImpl::join_aggregators(Bootstrap& bootstrap,
                                          const CommunicatorOptions& options) {
  // Side communicators have numbers of their own, so that no datagram of one is taken for
  // another's.
  constexpr std::uint32_t kFirstSideNumber = 0x8000;
  constexpr std::uint32_t kMaxSides = 64;
  if (options.aggregators.empty()) return {};
  const AggregationOptions wanted{options.aggregators, options.aggregator_fallback, {}};
  CommunicatorOptions of_sides = options;
  of_sides.aggregators.clear();
  auto made =
      Aggregation::create(bootstrap, of_sides, wanted, progress_,
                          static_cast<std::uint16_t>(kFirstSideNumber + kMaxSides * number_));
  if (!made) return made.status();
  aggregation_ = std::move(*made);
  return {};
}

Status CommunicatorImpl::join_hosts(Bootstrap& bootstrap, const CommunicatorOptions& options) {
  // Below those of aggregators, above those of duplicates.
  constexpr std::uint32_t kFirstSideNumber = 0x4000;
  constexpr std::uint32_t kLastSideNumber = 0x7fff;
  const auto shape = HierarchyShape::parse(greetings_.front().hierarchy);
  if (!shape) return shape.status();
  const HostLayout hosts = HostLayout::of(greetings_);
  const bool chosen_freely = !options.device && greetings_.front().device == "auto";
  if (!chosen_freely || !hosts.hierarchical() || shape->flat) return {};
  HostLayout layout = hosts.divided(shape->leaders_per_host);
  if (!layout.hierarchical()) {
    layout = hosts;
    hierarchy_note_ = fmt::format("one leader a host: {} ranks have no {} that lead equal parts",
                                  hosts.ranks_per_host, shape->leaders_per_host);
  }
  const std::uint32_t numbers = Hierarchy::numbers(layout, shape->groups);
  const std::uint32_t first = kFirstSideNumber + numbers * number_;
  if (first + numbers - 1 > kLastSideNumber) {
    hierarchy_note_ = "flat: no numbers are left for side communicators";
    return {};
  }
  auto made = Hierarchy::create(bootstrap, options, layout, shape->groups,
                                !calls_->choices().prefers_anywhere(), progress_,
                                static_cast<std::uint16_t>(first));
  if (made) {
    hierarchy_ = std::move(*made);
  } else {
    hierarchy_note_ = "flat: " + made.status().message();
  }
  return {};
}

void CommunicatorImpl::add_side_counters(
    std::vector<std::pair<std::string, std::uint64_t>>& counters) const {
  const auto add = [&](const auto& sides) {
    for (const auto& side : sides) {
      const auto same = std::find_if(counters.begin(), counters.end(),
                                     [&](const auto& one) { return one.first == side.first; });
      if (same != counters.end()) same->second += side.second;
    }
  };
  if (aggregation_) add(aggregation_->counters());
  if (hierarchy_) add(hierarchy_->counters());
  counters.emplace_back("hierarchical_calls", hierarchy_ ? hierarchy_->calls() : 0);
}

void CommunicatorImpl::abort(const std::string& reason) {
  context_->abort(reason);
  if (hierarchy_) hierarchy_->abort(reason);
}

void CommunicatorImpl::poll_sides() {
  context_->poll(now());
  if (hierarchy_) hierarchy_->poll();
}

bool CommunicatorImpl::aggregated(const CollectiveCall& call) const {
  return aggregation_ && aggregation_->serves(call);
}

bool CommunicatorImpl::detoured(const CollectiveCall& call) const {
  return aggregated(call) || (hierarchy_ && hierarchy_->serves(call) && !calls_->prefers(call));
}

Result<std::string> CommunicatorImpl::algorithm_of(const CollectiveCall& call) {
  if (detoured(call)) {
    const Algorithm way = aggregated(call) ? Aggregation::kInNetwork : Hierarchy::kHierarchical;
    return std::string(way.name());
  }
  auto planned = calls_->plan(call);
  if (!planned) return planned.status();
  return std::string(planned->algorithm_name);
}

Result<std::shared_ptr<RequestState>> CommunicatorImpl::start(const CollectiveCall& call) {
  if (detoured(call)) {
    if (Status fits = check_call(call, rank(), size()); !fits) return fits;
    auto completion = aggregated(call) ? aggregation_->start(call) : hierarchy_->start(call);
    if (!completion) return completion.status();
    auto request = std::make_shared<RequestState>();
    request->completion = std::move(*completion);
    request->communicator = shared_from_this();
    return request;
  }
  return submit(calls_->make(call), call.options.will_wait);
}

Result<std::shared_ptr<RequestState>> CommunicatorImpl::submit(const PlannedCall& planned) {
  return submit(calls_->make(planned), planned.call.options.will_wait);
}

Result<std::shared_ptr<RequestState>> CommunicatorImpl::submit(
    Result<std::unique_ptr<engine::Operation>> operation, bool will_wait) {
  if (!operation) return operation.status();
  auto request = std::make_shared<RequestState>();
  request->completion = (*operation)->completion();
  request->communicator = shared_from_this();
  progress_->submit(*context_, std::move(*operation), will_wait);
  return request;
}

Result<std::shared_ptr<PreparedState>> PreparedState::create(
    std::shared_ptr<CommunicatorImpl> communicator, const CollectiveCall& call) {
  std::shared_ptr<PreparedState> state(new PreparedState());
  state->communicator_ = std::move(communicator);
  state->sizes_bytes_.assign(call.sizes_bytes.begin(), call.sizes_bytes.end());
  state->offsets_bytes_.assign(call.offsets_bytes.begin(), call.offsets_bytes.end());
  CollectiveCall kept = call;
  kept.sizes_bytes = state->sizes_bytes_;
  kept.offsets_bytes = state->offsets_bytes_;
  state->planned_.call = kept;
  if (state->communicator_->detoured(kept)) return state;
  auto planned = state->communicator_->calls().plan(kept);
  if (!planned) return planned.status();
  state->planned_ = std::move(*planned);
  return state;
}

Result<std::shared_ptr<RequestState>> PreparedState::start() {
  if (last_ && !last_->done.load(std::memory_order_acquire)) {
    return failure(Code::invalid_argument,
                   "a prepared {} was started while it runs: wait for its request first",
                   to_string(planned_.call.collective));
  }
  auto request = communicator_->detoured(planned_.call) ? communicator_->start(planned_.call)
                                                        : communicator_->submit(planned_);
  if (request) last_ = (*request)->completion;
  return request;
}

std::string CommunicatorImpl::describe() const {
  const device::Capabilities& capabilities = context_->endpoint().capabilities();
  std::string sides = aggregation_ ? aggregation_->describe() + "\n" : "";
  if (hierarchy_) sides += hierarchy_->describe() + "\n";
  if (!hierarchy_note_.empty()) sides += hierarchy_note_ + "\n";
  return fmt::format(
             "rank {} of {}, ranks found by {}\ndevice {}: {}\n"
             "chunks of {} bytes, {} subgroup(s), {}, receive window {} bytes, {}\n",
             index(context_->rank()), context_->size(), bootstrap_, device_,
             context_->endpoint().description(), context_->chunk_bytes(),
             context_->endpoint().subgroup_count(),
             context_->settings().chains == 0
                 ? std::string("turns learned")
                 : fmt::format("{} chain(s)", context_->settings().chains),
             capabilities.receive_window_bytes,
             context_->team() == nullptr
                 ? std::string("received by whoever drives")
                 : fmt::format("{} receive worker(s)", context_->team()->size())) +
         sides;
}

}  // namespace tutti::runtime
