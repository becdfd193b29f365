#include "sim/simulation/scenario_run.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "sim/fault/fault_injector.hpp"

namespace tutti::simulation {

namespace {

// A scenario with more events than this limit is taken to loop forever. Half of the limit would be
// too low for 64 ranks that poll every 20 us and lose half of all chunks.
constexpr std::uint64_t kMaxEvents = 60'000'000;

}  // namespace

/// A frame tap that loses or duplicates the frames that the scenario lists or that the fault plan
/// draws, and records each of these faults.
class ScenarioWorld::ScriptedTap final : public device::FrameTap {
 public:
  ScriptedTap(const ScenarioCommunicator& from)
      : plan_(from.faults),
        planned_(from.faults.concerns(device::fault::FaultSite::sender,
                                      device::fault::Packet::reliable)),
        listed_(from.frames),
        ranks_(from.ranks),
        sent_(planned_ || !listed_.empty() ? std::size_t{ranks_} * ranks_ : 0) {}

  unsigned copies(Rank from, Rank to, std::size_t) override {
    if (sent_.empty()) return 1;
    const std::uint32_t number = sent_[index(from) * ranks_ + index(to)]++;
    FrameFault fault{.duplicate = false, .from = from, .to = to, .number = number};
    if (!strikes(fault)) return 1;
    happened.push_back(fault);
    return fault.duplicate ? 2 : 0;
  }

  std::vector<FrameFault> happened;

 private:
  bool strikes(FrameFault& fault) const {
    for (const FrameFault& one : listed_) {
      if (one.from != fault.from || one.to != fault.to || one.number != fault.number) continue;
      fault.duplicate = one.duplicate;
      return true;
    }
    if (!planned_) return false;
    const device::fault::FaultRule* rule =
        device::fault::decide(plan_, {.place = device::fault::FaultSite::sender,
                                      .packet = device::fault::Packet::reliable,
                                      .source = fault.from,
                                      .receiver = fault.to,
                                      .occurrence = fault.number});
    if (rule == nullptr) return false;
    fault.duplicate = rule->action == device::fault::Action::duplicate;
    return true;
  }

  device::fault::FaultPlan plan_;
  bool planned_;
  std::vector<FrameFault> listed_;
  std::uint32_t ranks_;
  std::vector<std::uint32_t> sent_;
};

ScenarioWorld::~ScenarioWorld() = default;

Result<std::unique_ptr<ScenarioWorld>> ScenarioWorld::create(const Scenario& scenario) {
  auto topology = make_topology(scenario.place);
  if (!topology) return topology.status();
  std::unique_ptr<ScenarioWorld> made(new ScenarioWorld(scenario, std::move(*topology)));
  if (Status status = made->open(); !status) return status;
  return made;
}

CommunicatorSpec ScenarioWorld::make_communicator(const ScenarioCommunicator& from,
                                                  const std::vector<sim::HostId>& places) {
  CommunicatorSpec to;
  for (std::uint32_t r = 0; r < from.ranks; ++r)
    to.hosts.push_back(places[(r + from.rotated) % places.size()]);
  to.subgroups = from.subgroups;
  to.engine.chains = from.chains;
  to.engine.window_bytes = from.window_bytes;
  to.engine.pulses_in_flight = from.pulses_in_flight;
  to.engine.always_barrier = from.always_barrier;
  to.engine.retain_bytes = from.retain_bytes;
  to.engine.reorder_delay = from.reorder_delay;
  to.engine.cutoff.silence_timeout_floor = from.alpha;
  to.engine.cutoff.silence_timeout_ceiling = from.alpha * 25;
  to.engine.fetch.patience = from.patience;
  to.engine.fetch.linger = from.linger;
  to.engine.assumed_bytes_per_second = scenario_.place.bits_per_second / 8;
  to.engine.first_epoch = from.first_epoch;
  to.engine.activation_lead = Nanoseconds(0);
  // A packet of the NIC must have room for the longest message, because a message cannot be split.
  to.nic.chunk_bytes = std::max(from.chunk_bytes, 256u);
  to.engine.chunk_bytes = from.chunk_bytes;
  to.nic.staging_chunks = from.staging_chunks;
  to.nic.send_queue_chunks = scenario_.send_queue_chunks * std::max(scenario_.uc_fragments, 1u);
  to.nic.connections = scenario_.connections;
  if (scenario_.connections == device::sim::ConnectionKind::software) {
    // A simulated rank tests the paths to its peers after half a peer timeout without progress.
    // Ranks of a job test them after a fifth of the peer timeout
    // (CommunicatorOptions::peer_timeout).
    to.engine.path_test_interval = from.peer_timeout / 2;
  }
  to.nic.slot_exchange =
      std::any_of(from.collectives.begin(), from.collectives.end(),
                  [](const CollectiveSpec& one) { return uses_slots(one.kind); });
  to.nic.host_serviced = scenario_.host_serviced;
  to.nic.carry_bytes = scenario_.carry_bytes;
  to.nic.lossless = scenario_.lossless;
  to.nic.expect_reordering = scenario_.routing == sim::Routing::adaptive;
  to.nic.retransmit_timeout = Nanoseconds(100'000);
  // The engine limits the receive window in bytes, whereas the NIC limits it in posted receives. A
  // short chunk takes a whole receive, and so does each fragment of a UC message.
  const std::uint32_t fragments = std::max(scenario_.uc_fragments, 1u);
  const std::uint64_t posted = std::uint64_t{from.staging_chunks} * from.chunk_bytes * fragments;
  to.engine.window_bytes =
      from.window_bytes == 0 ? posted : std::min(from.window_bytes * fragments, posted);
  if (scenario_.uc_fragments > 0) {
    to.uc = device::sim::FragmentShape{from.chunk_bytes, fragments};
    to.engine.chunk_bytes = from.chunk_bytes * fragments;
    to.nic.staging_chunks = from.staging_chunks * fragments;
    to.nic.chunk_bytes =
        std::max(to.nic.chunk_bytes,
                 from.chunk_bytes + static_cast<std::uint32_t>(wire::kFragmentHeaderBytes));
  }
  to.peer_timeout = from.peer_timeout;
  to.max_connections = from.max_connections;
  to.nic.big_endian_atomics = from.big_endian;
  if (has_hierarchy(scenario_, from)) to.ranks_per_host = scenario_.ranks_per_host;
  to.receive_workers = std::min(scenario_.receive_workers, from.subgroups);
  if (from.aggregator_slots > 0) to.aggregator = aggregator_window(from.aggregator_slots);
  to.faults = from.faults;
  taps_.push_back(std::make_shared<ScriptedTap>(from));
  to.tap = taps_.back();
  to.collectives = from.collectives;
  to.submitted_ahead = from.submitted_ahead;
  to.skew = from.skew;
  to.compute = from.compute;
  to.engine.limit_close_linger(from.peer_timeout);
  return to;
}

Status ScenarioWorld::open() {
  WorldConfig config;
  config.seed = scenario_.seed;
  config.topology = &topology_;
  config.fabric.seed = scenario_.seed;
  config.fabric.forwarding =
      scenario_.cut_through ? sim::Forwarding::cut_through : sim::Forwarding::store_and_forward;
  config.fabric.flow_control =
      scenario_.lossless ? sim::FlowControl::lossless : sim::FlowControl::lossy;
  config.fabric.routing = scenario_.routing;
  config.fabric.queue_bytes = scenario_.queue_bytes;
  config.host = scenario_.host;
  config.pauses = scenario_.pauses;
  config.deaths = scenario_.deaths;
  config.outages = scenario_.outages;
  config.path_faults = scenario_.path_faults;
  config.replays = scenario_.replays;
  config.group_faults = scenario_.group_faults;
  config.toggled_losses = scenario_.toggled_losses;
  if (scenario_.loss_ppm > 0) {
    for (std::size_t c = 0; c < sim::kLinkClasses; ++c) {
      config.loss.emplace_back(static_cast<sim::LinkClass>(c), scenario_.loss_ppm * 1e-6);
    }
  }
  config.healed = Instant{scenario_.healed.count()};
  config.end = Instant{scenario_.limit.count()};
  config.max_events = kMaxEvents;
  std::uint32_t most = 1;
  for (const ScenarioCommunicator& one : scenario_.communicators) most = std::max(most, one.ranks);
  auto places = sim::place(topology_, most, scenario_.place.placement, scenario_.seed);
  if (!places) return places.status();
  for (const ScenarioCommunicator& one : scenario_.communicators)
    config.communicators.push_back(make_communicator(one, *places));
  world_ = std::make_unique<Simulation>(std::move(config));
  return world_->open();
}

ScenarioResult ScenarioWorld::run() {
  ScenarioResult result;
  result.report = world_->run();
  sum_up(result);
  if (result.report.verdict.ok()) result.report.verdict = check_costs(result);
  return result;
}

void ScenarioWorld::sum_up(ScenarioResult& result) {
  for (const auto& tap : taps_) result.frames.push_back(tap->happened);
  result.losses = world_->fabric_losses();
  result.injected = world_->injected();
  result.path_losses = world_->network().path_losses();
  result.replayed = world_->network().replayed();
  // The sums include the side communicators, which the simulation added to the communicators of the
  // scenario.
  for (std::uint32_t c = 0; c < world_->config().communicators.size(); ++c) {
    for (std::uint32_t r = 0; r < world_->config().communicators[c].hosts.size(); ++r) {
      const engine::CommunicatorContext& context = world_->context(c, rank_of(r));
      const observe::Counters& counters = context.counters();
      const std::uint64_t repeated = counters.tail_probes * context.settings().chunk_bytes;
      result.recovered_bytes += counters.bytes_fetched + counters.bytes_retransmitted -
                                std::min(counters.bytes_retransmitted, repeated);
      const device::EndpointCounters device = world_->endpoint(c, rank_of(r)).counters();
      result.staging_drops += device.kernel_drops;
      result.sent_bytes += device.multicast_bytes_sent + device.reliable_bytes_sent;
    }
  }
  for (const ScenarioCommunicator& one : scenario_.communicators)
    result.lost_bytes += result.injected.bytes_dropped_at_sender * (one.ranks - 1);
  result.lost_bytes += result.injected.bytes_dropped_at_receiver + result.injected.bytes_corrupted;
}

Status ScenarioWorld::check_costs(const ScenarioResult& result) {
  const device::fault::Injected& injected = result.injected;
  const bool frames_lost =
      std::any_of(result.frames.begin(), result.frames.end(),
                  [](const std::vector<FrameFault>& one) { return !one.empty(); });
  // A fragment that arrives late or twice can void a UC message, so recovery may move bytes
  // although no packet was lost.
  const bool voids_messages = scenario_.uc_fragments > 0;
  if (!scenario_.pauses.empty() || !scenario_.deaths.empty() || !scenario_.outages.empty() ||
      !scenario_.group_faults.empty() || result.path_losses > 0 || !result.losses.empty() ||
      result.report.failed > 0 || frames_lost || injected.chunks_delayed > 0 ||
      injected.chunks_reordered > 0 || voids_messages) {
    return {};
  }
  if (Status status = check_closes(); !status) return status;
  if (result.staging_drops == 0 && result.lost_bytes == 0) {
    return check_nothing_was_recovered(result);
  }
  if (Status status = check_no_rank_was_skipped(result); !status) return status;
  // A duplicated chunk takes two posted receives but only one credit, so the posted receives may
  // run out although the engine obeys its credits.
  const bool once = result.lost_bytes == 0 && injected.chunks_duplicated == 0;
  return once ? check_staging(result) : Status();
}

// Checks that each rank stayed until every peer had acknowledged the rank's close or had announced
// its own close. A communicator that dropped frames for lack of connections is not checked: a
// connection to a rank that has left may wait for an ACK and block other connections
// (docs/decisions/035).
Status ScenarioWorld::check_closes() {
  for (std::uint32_t c = 0; c < scenario_.communicators.size(); ++c) {
    const ScenarioCommunicator& one = scenario_.communicators[c];
    if (!closes(world_->config().communicators[c])) continue;
    std::uint64_t dropped = 0;
    for (std::uint32_t r = 0; r < one.ranks; ++r)
      dropped += world_->endpoint(c, rank_of(r)).counters().frames_without_connection;
    for (std::uint32_t r = 0; r < one.ranks && dropped == 0; ++r) {
      const auto last = static_cast<std::uint32_t>(one.collectives.size()) - 1;
      if (!world_->end_of(c, rank_of(r), last).early) continue;
      return failure(Code::internal,
                     "rank {} of communicator {} closed although a peer had neither acknowledged "
                     "this close nor announced its own close",
                     r, c);
    }
  }
  return {};
}

// If one rank lost one chunk, checks that no rank treated a neighbour as silent. The rank requests
// the chunk from its left neighbour, which has the chunk or will get it and therefore answers.
Status ScenarioWorld::check_no_rank_was_skipped(const ScenarioResult& result) {
  const device::fault::Injected& injected = result.injected;
  const bool one_lost = injected.chunks_dropped_at_sender == 0 && result.staging_drops == 0 &&
                        injected.chunks_dropped_at_receiver + injected.chunks_corrupted == 1;
  for (std::uint32_t c = 0; one_lost && c < scenario_.communicators.size(); ++c) {
    const ScenarioCommunicator& one = scenario_.communicators[c];
    // If ranks may start or answer later than `patience`, it is no error to treat them as silent.
    if (one.skew + one.compute + 100 * scenario_.host.jitter > one.patience) continue;
    for (std::uint32_t r = 0; r < one.ranks; ++r) {
      const observe::Counters& counters = world_->context(c, rank_of(r)).counters();
      if (counters.fetch_targets_skipped == 0) continue;
      return failure(Code::internal,
                     "rank {} treated {} neighbours as silent although they answered", r,
                     counters.fetch_targets_skipped);
    }
  }
  return {};
}

// Reports chunks that found no posted receive as an error: in a single collective without loss,
// credits allow at most as many chunks in flight as receives are posted. Scenarios with a
// hierarchy, several collectives, slot exchanges (whose entries need no credit) or tail probes are
// not checked.
Status ScenarioWorld::check_staging(const ScenarioResult& result) {
  if (scenario_.ranks_per_host > 0) return {};
  for (const ScenarioCommunicator& one : scenario_.communicators) {
    const auto by_slots = [](const CollectiveSpec& each) { return uses_slots(each.kind); };
    if (one.collectives.size() > 1 ||
        std::any_of(one.collectives.begin(), one.collectives.end(), by_slots)) {
      return {};
    }
  }
  for (std::uint32_t c = 0; c < world_->config().communicators.size(); ++c) {
    for (std::uint32_t r = 0; r < world_->config().communicators[c].hosts.size(); ++r)
      if (world_->context(c, rank_of(r)).counters().tail_probes > 0) return {};
  }
  return failure(
      Code::internal,
      "{} chunks found no posted receive although every sender stayed within its credits",
      result.staging_drops);
}

// Checks a run without loss or delay: recovery must move no bytes, and no link may carry more bytes
// than all ranks sent.
Status ScenarioWorld::check_nothing_was_recovered(const ScenarioResult& result) {
  if (result.recovered_bytes > 0) {
    return failure(Code::internal, "{} bytes were recovered although nothing was lost",
                   result.recovered_bytes);
  }
  for (std::uint32_t l = 0; l < topology_.links(); ++l) {
    const auto link = static_cast<sim::LinkId>(l);
    const std::uint64_t crossed = world_->network().fabric().tx(link).payload_bytes;
    if (crossed > result.sent_bytes) {
      return failure(Code::internal,
                     "{} bytes crossed link {}, more than the {} bytes that all ranks sent",
                     crossed, l, result.sent_bytes);
    }
  }
  return {};
}

ScenarioResult run_scenario(const Scenario& scenario) {
  auto made = ScenarioWorld::create(scenario);
  if (made) return (*made)->run();
  ScenarioResult result;
  result.report.verdict = made.status();
  return result;
}

}  // namespace tutti::simulation
