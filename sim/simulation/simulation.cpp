#include "sim/simulation/simulation.hpp"

#include <algorithm>
#include <iterator>

#include "base/error.hpp"
#include "base/random.hpp"
#include "sim/device/sim_device.hpp"
#include "sim/simulation/config_check.hpp"
#include "sim/uc/uc_device.hpp"

namespace tutti::simulation {

using device::sim::kFirstWorldKind;
using sim::Event;
using sim::EventKind;
using sim::HostId;

namespace {

constexpr EventKind world_kind(unsigned number) {
  return static_cast<EventKind>(static_cast<unsigned>(kFirstWorldKind) + number);
}
constexpr EventKind kPauseBegins = world_kind(0);
constexpr EventKind kDeath = world_kind(1);
constexpr EventKind kLinkDown = world_kind(2);
constexpr EventKind kLinkUp = world_kind(3);
constexpr EventKind kHeal = world_kind(4);
constexpr EventKind kSubmit = world_kind(5);
constexpr EventKind kWake = world_kind(6);
constexpr EventKind kReceiveWorker = world_kind(7);

// The simulation starts after time zero, which the engine's records use for "never".
constexpr Instant kStart{1'000};
// Time after the end of the last collective within which all packets still in flight arrive.
constexpr Nanoseconds kLinger{20'000'000};
// Longest time between two polls of a rank that closes.
constexpr Nanoseconds kClosePoll{1'000'000};

// Purposes of random draws. Draws for different purposes are independent.
constexpr std::uint64_t kSkew = 1;
constexpr std::uint64_t kCompute = 2;
constexpr std::uint64_t kJitter = 3;
constexpr std::uint64_t kContents = 4;
constexpr std::uint64_t kSecret = 5;
constexpr std::uint64_t kWorkerJitter = 6;

/// A frame tap that acts as `inner` until the instant `healed` and injects no faults afterwards.
class HealingTap final : public device::FrameTap {
 public:
  HealingTap(std::shared_ptr<FrameTap> inner, const sim::EventQueue& queue, Instant healed)
      : inner_(std::move(inner)), queue_(queue), healed_(sim::from_instant(healed)) {}
  unsigned copies(Rank from, Rank to, std::size_t bytes) override {
    return queue_.now() >= healed_ ? 1 : inner_->copies(from, to, bytes);
  }

 private:
  std::shared_ptr<FrameTap> inner_;
  const sim::EventQueue& queue_;
  sim::Picoseconds healed_;
};

std::uint64_t mixed_into(std::uint64_t digest, std::uint64_t value) {
  return mix(digest ^ mix(value));
}

}  // namespace

/// Records the packets that the fabric loses.
class Simulation::DropRecorder final : public sim::Sink {
 public:
  explicit DropRecorder(std::vector<FabricLoss>& losses) : losses_(&losses) {}
  void arrived(const sim::Arrival&, HostId, const sim::Packet&) override {}
  void dropped(const sim::Arrival& lost, sim::LinkId link, const sim::Packet& packet,
               sim::DropReason) override {
    for (std::uint32_t i = 0; i < lost.count; ++i) {
      losses_->push_back({link, packet.identity + lost.first + i});
    }
  }

 private:
  std::vector<FabricLoss>* losses_;
};

Simulation::Simulation(WorldConfig config)
    : config_(std::move(config)),
      receive_workers_(queue_, kReceiveWorker, config_.host, draw(config_.seed, kWorkerJitter)) {}
Simulation::~Simulation() {
  // The endpoints use the network, so they must be destroyed first.
  members_.clear();
}

// ---- opening ------------------------------------------------------------------------------------

Status Simulation::open() {
  if (config_.topology == nullptr) {
    return failure(Code::invalid_argument,
                   "the simulation has no topology: set WorldConfig::topology");
  }
  if (Status status = check(config_); !status) return status;
  network_ =
      std::make_unique<device::sim::SimNetwork>(queue_, *config_.topology, config_.fabric, *this);
  drops_ = std::make_unique<DropRecorder>(losses_);
  network_->observe_drops(drops_.get());
  hosts_.resize(config_.topology->hosts());
  std::vector<std::uint32_t> first_sides;
  for (std::size_t c = 0, given = config_.communicators.size(); c < given; ++c) {
    CommunicatorSpec& spec = config_.communicators[c];
    if (spec.aggregator) spec.collectives.push_back({.kind = CollectiveKind::leave});
    auto sides = side_communicators(spec);
    first_sides.push_back(static_cast<std::uint32_t>(config_.communicators.size()));
    std::move(sides.begin(), sides.end(), std::back_inserter(config_.communicators));
  }
  std::size_t members = 0;
  for (const CommunicatorSpec& spec : config_.communicators) members += spec.hosts.size();
  members_.reserve(members);
  shared_.resize(config_.communicators.size());
  for (std::uint32_t c = 0; c < config_.communicators.size(); ++c) {
    if (Status status = open_communicator(c); !status) return status;
  }
  for (std::uint32_t c = 0; c < first_sides.size(); ++c) open_hierarchy(c, first_sides[c]);
  for (const auto& [link_class, probability] : config_.loss) {
    network_->fabric().set_loss(link_class, probability);
  }
  for (const FabricLoss& loss : config_.toggled_losses) {
    network_->fabric().toggle_loss(loss.link, loss.identity);
  }
  for (const auto& fault : config_.path_faults) network_->path_faults().add(fault);
  for (const auto& replay : config_.replays) network_->path_faults().add(replay);
  for (const auto& fault : config_.group_faults) network_->group_faults().add(fault);
  schedule_script();
  if (config_.background.streams > 0) {
    background_ =
        std::make_unique<sim::BackgroundTraffic>(queue_, network_->fabric(), config_.background);
    background_->start({});
  }
  if (config_.trace != nullptr) begin_trace();
  return {};
}

Status Simulation::open_communicator(std::uint32_t number) {
  const CommunicatorSpec& spec = config_.communicators[number];
  Shared& shared = shared_[number];
  auto added = network_->add_communicator(spec.hosts, spec.subgroups, spec.nic.slot_exchange);
  if (!added) return added.status();
  std::shared_ptr<device::FrameTap> tap = spec.tap;
  if (!spec.faults.rules.empty()) {
    shared.faults = std::make_shared<device::fault::FaultDevice>(spec.faults);
    if (!tap) tap = shared.faults->frame_tap();
  }
  if (tap && config_.healed != kNever) {
    tap = std::make_shared<HealingTap>(std::move(tap), queue_, config_.healed);
  }
  shared.device =
      std::make_shared<device::sim::SimDevice>(*network_, *added, spec.nic, std::move(tap));
  if (shared.faults) {
    shared.faults->decorate(shared.device);
    shared.device = shared.faults;
  }
  if (spec.uc) shared.device = std::make_shared<device::sim::UcDevice>(shared.device, *spec.uc);
  shared.first_member = static_cast<std::uint32_t>(members_.size());
  const auto ranks = static_cast<std::uint32_t>(spec.hosts.size());
  for (std::size_t i = 0; i < spec.collectives.size(); ++i) {
    const CollectiveSpec& one = spec.collectives[i];
    if (spec.nic.carry_bytes) {
      shared.expected.push_back(
          expected_result(one, calling_ranks(spec), draw(config_.seed, kContents, number, i)));
    } else {
      shared.absent.push_back(std::make_unique_for_overwrite<std::byte[]>(
          std::max<std::uint64_t>(result_bytes(one, calling_ranks(spec)), 1)));
    }
  }
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (Status status = open_member(number, rank_of(r)); !status) return status;
  }
  return {};
}

Status Simulation::open_member(std::uint32_t number, Rank rank) {
  const CommunicatorSpec& spec = config_.communicators[number];
  device::EndpointOptions options;
  options.rank = rank;
  options.size = static_cast<std::uint32_t>(spec.hosts.size());
  options.communicator = static_cast<std::uint16_t>(number);
  options.subgroups = spec.subgroups;
  options.peer_timeout = spec.peer_timeout;
  options.accept_big_endian_atomics = true;
  options.max_connections = spec.max_connections;
  auto endpoint = shared_[number].device->open(options);
  if (!endpoint) return endpoint.status();
  const std::uint64_t secret = draw(config_.seed, kSecret, number);
  if (Status status = (*endpoint)->use_secret(std::as_bytes(std::span(&secret, 1))); !status)
    return status;
  const auto at = static_cast<std::uint32_t>(members_.size());
  Member& member = members_.emplace_back();
  member.communicator = number;
  member.rank = rank;
  member.host = index(spec.hosts[index(rank)]);
  member.endpoint = network_->endpoint_at(number, HostId{member.host});
  member.context = std::make_unique<engine::CommunicatorContext>(
      rank, options.size, spec.engine, std::move(*endpoint), engine::RankNames({}, spec.members));
  member.context->receiver().membership().on_report(
      [this, number, rank](Rank source, const Status&) {
        report_.unheard.push_back({number, rank, source});
      });
  member.ends.resize(is_aggregator(spec, rank) ? 1 : spec.collectives.size());
  hosts_[member.host].members.push_back(at);
  remaining_ += member.ends.size();
  if (is_aggregator(spec, rank)) {
    if (Status status = open_window(member); !status) return status;
  }
  if (spec.receive_workers > 0) {
    engine::ChunkReceiver& receiver = member.context->receiver();
    if (Status status = receiver.use_workers(spec.receive_workers); !status) return status;
    receive_workers_.add(member.host, *receiver.team(),
                         [this, host = member.host] { schedule_wake(host, now()); });
  }
  const auto skew =
      static_cast<std::int64_t>(Random(draw(config_.seed, kSkew, number, index(rank)))
                                    .below(static_cast<std::uint64_t>(spec.skew.count()) + 1));
  queue_.push({.time = sim::from_instant(kStart + Nanoseconds(skew)),
               .key = event_key(kSubmit, at),
               .argument = 0});
  return {};
}

/// Opens the window of an aggregator. The service of the aggregator counts as one collective, which
/// ends after all ranks have left, or with an error.
Status Simulation::open_window(Member& member) {
  const CommunicatorSpec& spec = config_.communicators[member.communicator];
  member.window = std::make_shared<engine::InNetworkWindow>(calling_ranks(spec), *spec.aggregator);
  const auto at = static_cast<std::uint32_t>(&member - members_.data());
  member.window->on_end = [this, at](const Status& status) {
    if (!members_[at].ends[0].done) on_end(at, 0, status);
  };
  return member.window->open(member.context->endpoint());
}

/// Gives each rank of communicator `number` its contexts in the side communicators of the
/// hierarchy. These side communicators are numbered from `first_side` on.
void Simulation::open_hierarchy(std::uint32_t number, std::uint32_t first_side) {
  const CommunicatorSpec& spec = config_.communicators[number];
  if (spec.ranks_per_host == 0) return;
  const hierarchy::HostLayout layout = layout_of(spec);
  for (std::uint32_t r = 0; r < spec.hosts.size(); ++r) {
    const std::uint32_t host = layout.host_of(rank_of(r));
    const std::uint32_t place = layout.place_of(rank_of(r));
    Member& member = members_[shared_[number].first_member + r];
    const auto join = [&](std::uint32_t side, std::uint32_t rank) {
      const Member& in_side = members_[shared_[first_side + side].first_member + rank];
      member.side_endpoints.push_back(in_side.endpoint);
      return in_side.context.get();
    };
    engine::CommunicatorContext& within = *join(host, place);
    engine::CommunicatorContext* const across = place == 0 ? join(layout.hosts, host) : nullptr;
    member.by_hosts = std::make_unique<HierarchyRank>(layout, rank_of(r), within, across);
  }
}

void Simulation::schedule_script() {
  const auto at = [&](EventKind kind, Instant time, std::size_t which) {
    queue_.push({.time = sim::from_instant(std::max(time, kStart)),
                 .key = event_key(kind, static_cast<std::uint32_t>(which)),
                 .argument = 0});
  };
  for (std::size_t i = 0; i < config_.pauses.size(); ++i) {
    at(kPauseBegins, config_.pauses[i].from, i);
  }
  for (std::size_t i = 0; i < config_.deaths.size(); ++i) at(kDeath, config_.deaths[i].at, i);
  for (std::size_t i = 0; i < config_.outages.size(); ++i) {
    at(kLinkDown, config_.outages[i].from, i);
    at(kLinkUp, config_.outages[i].from + config_.outages[i].length, i);
  }
  if (config_.healed != kNever) at(kHeal, config_.healed, 0);
}

// ---- running ------------------------------------------------------------------------------------

WorldReport Simulation::run() {
  Event event;
  Instant until = kNever;
  while (report_.verdict.ok() && queue_.pop(event)) {
    ++report_.events;
    handle(event);
    if (remaining_ == 0) {
      if (background_) background_->stop();
      if (until == kNever) until = now() + kLinger;
      if (now() >= until) break;
    } else if (report_.events >= config_.max_events) {
      fail(failure(Code::timeout, "the simulation is not over after {} events: {}", report_.events,
                   describe_stuck()));
    } else if (now() >= config_.end) {
      fail(failure(Code::timeout, "the simulation is not over after {} ns: {}", now().nanoseconds,
                   describe_stuck()));
    }
  }
  if (report_.verdict.ok() && remaining_ > 0) {
    fail(failure(Code::internal, "deadlock at {} ns of virtual time: {}", now().nanoseconds,
                 describe_stuck()));
  }
  if (report_.verdict.ok()) fail(check_end());
  for (const Member& member : members_) {
    report_.strangers_refused += member.endpoint->nic().strangers_refused;
  }
  report_.digest = mixed_into(report_.digest, queue_.digest());
  return report_;
}

void Simulation::handle(const Event& event) {
  if (network_->handle(event)) return;
  const EventKind kind = kind_of(event);
  const std::uint32_t target = target_of(event);
  if (kind == EventKind::background) {
    background_->handle(event);
  } else if (kind == kWake) {
    // Only the earliest wake event that was requested for a host is valid; all others are ignored.
    if (hosts_[target].wake_at == now()) work(target);
  } else if (kind == kReceiveWorker) {
    const Host& host = hosts_[receive_workers_.host_of(target)];
    if (!host.dead) receive_workers_.work(target, host.paused_until);
  } else if (kind == kSubmit) {
    submit(target);
  } else {
    on_script(kind, target);
  }
}

void Simulation::on_script(EventKind kind, std::uint32_t target) {
  if (kind == kPauseBegins) {
    Host& host = hosts_[index(config_.pauses[target].host)];
    host.paused_until = std::max(host.paused_until, now() + config_.pauses[target].length);
  } else if (kind == kDeath) {
    kill(config_.deaths[target].host);
  } else if (kind == kLinkDown || kind == kLinkUp) {
    const sim::LinkId link = config_.outages[target].link;
    network_->fabric().set_link(link, kind == kLinkUp);
    if (config_.outages[target].one_way) return;
    network_->fabric().set_link(config_.topology->reverse(link), kind == kLinkUp);
  } else if (kind == kHeal) {
    heal();
  }
}

void Simulation::heal() {
  for (const auto& [link_class, probability] : config_.loss) {
    network_->fabric().set_loss(link_class, 0);
  }
}

void Simulation::kill(HostId id) {
  Host& host = hosts_[index(id)];
  if (host.dead) return;
  host.dead = true;
  network_->kill(id);
  for (const std::uint32_t at : host.members) {
    remaining_ -= members_[at].ends.size() - members_[at].over;
  }
}

void Simulation::wake(HostId id, Instant visible, bool chunk) {
  if (chunk) receive_workers_.wake(index(id), visible);
  schedule_wake(index(id), chunk ? visible + config_.host.moderation : visible);
}

void Simulation::schedule_wake(std::uint32_t at, Instant when) {
  Host& host = hosts_[at];
  when = std::max({when, host.busy_until, now()});
  if (when >= host.wake_at || host.dead) return;
  host.wake_at = when;
  queue_.push({.time = sim::from_instant(when), .key = event_key(kWake, at), .argument = 0});
}

void Simulation::work(std::uint32_t at) {
  Host& host = hosts_[at];
  host.wake_at = kNever;
  if (host.dead) return;
  const Instant now = this->now();
  if (now < host.paused_until) {
    schedule_wake(at, host.paused_until);
    return;
  }
  bool worked = false;
  Work sum;
  for (const std::uint32_t m : host.members) {
    Member& member = members_[m];
    if (member.gone()) continue;
    const Work before = work_of(member);
    worked |= member.context->poll(now);
    if (member.departure) worked |= depart(m);
    sum += work_of(member) - before;
  }
  ++report_.polls;
  if (!worked) ++report_.idle_polls;
  host.busy_until = now + cost_of(host, sum);
  if (config_.trace != nullptr && worked) {
    config_.trace->add({worker_tracks_, at}, "poll", Nanoseconds(now.nanoseconds),
                       host.busy_until - now);
  }
  // With completion moderation, a worker sleeps after a poll that only received chunks, until the
  // moderation time has passed.
  const bool only_chunks = sum.messages + sum.sends + sum.turns == 0;
  if (only_chunks && config_.host.moderation.count() > 0) worked = false;
  Instant next = kNever;
  for (const std::uint32_t m : host.members) {
    const Member& member = members_[m];
    if (member.gone()) continue;
    if (member.departure) next = std::min(next, now + kClosePoll);
    worked |= member.context->operations().has_submissions();
    worked |= member.context->tagged().has_submissions();
    const Instant chunk = member.endpoint->next_chunk();
    if (chunk != kNever) next = std::min(next, chunk + config_.host.moderation);
    next = std::min({next, member.context->next_deadline(), member.endpoint->next_completion()});
  }
  if (worked) next = host.busy_until;
  if (next != kNever) schedule_wake(at, next);
}

Simulation::Work& Simulation::Work::operator+=(const Work& other) {
  chunks += other.chunks;
  messages += other.messages;
  sends += other.sends;
  turns += other.turns;
  return *this;
}

Simulation::Work Simulation::Work::operator-(const Work& other) const {
  return {chunks - other.chunks, messages - other.messages, sends - other.sends,
          turns - other.turns};
}

Simulation::Work Simulation::work_of(const Member& member) const {
  const observe::Counters& counters = member.context->counters();
  const device::EndpointCounters& device = member.endpoint->nic().counters;
  return {device.multicast_datagrams_received, counters.messages_received + counters.messages_sent,
          device.send_calls, counters.collectives_started + counters.collectives_completed};
}

Nanoseconds Simulation::cost_of(Host& host, const Work& work) {
  const HostModel& model = config_.host;
  Nanoseconds cost = model.poll * static_cast<std::int64_t>(host.members.size()) +
                     model.chunk * static_cast<std::int64_t>(work.chunks) +
                     model.message * static_cast<std::int64_t>(work.messages);
  if (model.jitter.count() > 0) {
    const auto which = static_cast<std::uint64_t>(&host - hosts_.data());
    const std::uint64_t drawn = draw(config_.seed, kJitter, which, host.polls++);
    cost += Nanoseconds(
        static_cast<std::int64_t>(drawn % (static_cast<std::uint64_t>(model.jitter.count()) + 1)));
  }
  // Every poll takes some time, even if all times of the host model are 0, because virtual time
  // must advance.
  return std::max(cost, Nanoseconds(1));
}

// ---- judging -----------------------------------------------------------------------------------

void Simulation::on_end(std::uint32_t at, std::uint32_t number, const Status& status) {
  Member& member = members_[at];
  CollectiveEnd& end = member.ends[number];
  if (end.done) {
    fail(
        failure(Code::internal, "rank {}'s collective {} ended twice", index(member.rank), number));
    return;
  }
  end.done = true;
  end.code = status.code();
  end.ended_at = now();
  ++member.over;
  --remaining_;
  ++(status.ok() ? report_.completed : report_.failed);
  report_.ended = end.ended_at;
  if (config_.trace != nullptr) {
    const CommunicatorSpec& spec = config_.communicators[member.communicator];
    trace_end(member, end, member.window ? CollectiveKind::leave : spec.collectives[number].kind);
  }
  report_.digest = mixed_into(report_.digest, std::uint64_t{at} << 32 | std::uint64_t{number} << 8 |
                                                  static_cast<std::uint64_t>(status.code()));
  if (!status.ok() && member.first_error.ok()) member.first_error = status;
  if (number < member.runs.size()) {
    const auto sends = [&](const auto* endpoint) {
      return endpoint->sends_from(member.runs[number].sent());
    };
    if (status.ok() &&
        (sends(member.endpoint) ||
         std::any_of(member.side_endpoints.begin(), member.side_endpoints.end(), sends))) {
      fail(failure(Code::internal,
                   "rank {}, communicator {}, collective {}: the collective completed while the "
                   "NIC still sends from the collective's buffer",
                   index(member.rank), member.communicator, number));
    }
    if (Status wrong = member.runs[number].finish(status.ok()); !wrong.ok()) {
      fail(failure(Code::internal, "rank {}, communicator {}, collective {}: {}",
                   index(member.rank), member.communicator, number, wrong.message()));
    }
  }
  const CommunicatorSpec& spec = config_.communicators[member.communicator];
  if (member.submitted == member.ends.size()) return;
  const std::uint64_t drawn = draw(config_.seed, kCompute, at, number) %
                              (static_cast<std::uint64_t>(spec.compute.count()) + 1);
  queue_.push({.time = queue_.now() + sim::nanoseconds(static_cast<std::int64_t>(drawn)),
               .key = event_key(kSubmit, at),
               .argument = number});
}

void Simulation::fail(const Status& status) {
  if (report_.verdict.ok()) report_.verdict = status;
}

bool Simulation::lives(std::uint32_t communicator, Rank rank) const {
  return !hosts_[member(communicator, rank).host].dead;
}

device::fault::Injected Simulation::injected() const {
  device::fault::Injected sum;
  for (const Shared& shared : shared_) {
    if (!shared.faults) continue;
    const device::fault::Injected one = shared.faults->injected();
    sum.chunks_dropped_at_sender += one.chunks_dropped_at_sender;
    sum.bytes_dropped_at_sender += one.bytes_dropped_at_sender;
    sum.chunks_dropped_at_receiver += one.chunks_dropped_at_receiver;
    sum.bytes_dropped_at_receiver += one.bytes_dropped_at_receiver;
    sum.chunks_delayed += one.chunks_delayed;
    sum.chunks_reordered += one.chunks_reordered;
    sum.chunks_duplicated += one.chunks_duplicated;
    sum.chunks_corrupted += one.chunks_corrupted;
    sum.bytes_corrupted += one.bytes_corrupted;
    sum.frames_dropped += one.frames_dropped;
    sum.frames_duplicated += one.frames_duplicated;
    sum.probes_dropped += one.probes_dropped;
  }
  return sum;
}

std::string Simulation::describe_stuck() const {
  constexpr int kMaxListed = 8;
  std::string text;
  int listed = 0;
  for (const Member& member : members_) {
    if (hosts_[member.host].dead || member.over == member.ends.size()) continue;
    if (++listed > kMaxListed) return text + ", ...";
    // An aggregator calls no collectives; its service counts as one collective of the kind `leave`.
    const CollectiveSpec what =
        member.window ? CollectiveSpec{.kind = CollectiveKind::leave}
                      : config_.communicators[member.communicator].collectives[member.over];
    text +=
        fmt::format("{}rank {} of communicator {} has not finished collective {} ({}, {} bytes)",
                    text.empty() ? "" : ", ", index(member.rank), member.communicator, member.over,
                    to_string(what.kind), what.bytes);
    if (!member.context) continue;
    for (const auto& active : member.context->operations().active()) {
      const std::string missing = active->missing().text;
      if (!missing.empty()) text += ", which waits for " + missing;
    }
  }
  return text;
}

}  // namespace tutti::simulation
