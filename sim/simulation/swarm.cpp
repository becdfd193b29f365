#include "sim/simulation/swarm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "sim/simulation/ranks/hierarchy_rank.hpp"

namespace tutti::simulation {

namespace {

using device::fault::Action;
using device::fault::FaultRule;
using device::fault::Packet;
using device::sim::ConnectionKind;

/// Draws a scenario, which the seed and the options alone determine.
class Drawer {
 public:
  Drawer(std::uint64_t seed, const SwarmOptions& options)
      : random_(mix(seed)),
        software_seed_(draw(seed, kSoftware)),
        wide_seed_(draw(seed, kWide)),
        team_seed_(draw(seed, kTeams)),
        closing_seed_(draw(seed, kClosing)),
        options_(options) {}

  Scenario scenario(std::uint64_t seed) {
    Scenario one;
    one.seed = seed;
    network(one);
    const std::uint32_t communicators = chance(6) ? 2 : 1;
    for (std::uint32_t c = 0; c < communicators; ++c) communicator(one, c);
    network_faults(one);
    // Features that were added later draw from random streams of their own, so that a seed still
    // draws the earlier features as before.
    random_ = Random(software_seed_);
    if (options_.connections ? *options_.connections == ConnectionKind::software : chance(4)) {
      software(one);
    }
    random_ = Random(wide_seed_);
    for (ScenarioCommunicator& each : one.communicators)
      each.big_endian = chance(2) && one.connections == ConnectionKind::nic;
    if (chance(3)) widen(one);
    random_ = Random(team_seed_);
    for (ScenarioCommunicator& each : one.communicators) {
      if (each.ranks >= 2 && each.ranks <= kMostAggregated && chance(16)) aggregate(each);
    }
    if (chance(8)) one.receive_workers = from_to(1, 4);
    if (chance(8) && features_of(one).slots == 0) one.uc_fragments = from_to(2, 6);
    if (chance(6)) one.ranks_per_host = from_to(2, 4);
    random_ = Random(closing_seed_);
    for (ScenarioCommunicator& each : one.communicators) {
      const bool plain = each.aggregator_slots == 0 && !has_hierarchy(one, each);
      if (chance(2) && plain && one.connections == ConnectionKind::software)
        each.collectives.push_back({.kind = CollectiveKind::close});
    }
    return one;
  }

 private:
  static constexpr std::uint64_t kSoftware = 0x736f'6674;
  static constexpr std::uint64_t kWide = 0x7769'6465;
  static constexpr std::uint64_t kTeams = 0x7465'616d;
  static constexpr std::uint64_t kClosing = 0x636c'6f73;
  /// A communicator with an aggregator has at most this many ranks. Each rank sends at least one
  /// long segment to the aggregator, so a run with more ranks would take long.
  static constexpr std::uint32_t kMostAggregated = 16;

  bool chance(std::uint64_t one_in) { return random_.below(one_in) == 0; }
  std::uint32_t from_to(std::uint32_t first, std::uint32_t last) {
    return first + static_cast<std::uint32_t>(random_.below(last - first + 1));
  }
  Nanoseconds time_up_to(std::int64_t nanoseconds) {
    return Nanoseconds(
        static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(nanoseconds) + 1)));
  }
  template <typename T, std::size_t N>
  T one_of(const std::array<T, N>& choices) {
    return choices[random_.below(N)];
  }

  void network(Scenario& one) {
    ranks_ = options_.ranks;
    if (ranks_ == 0) ranks_ = chance(400) ? 64 : (chance(3) ? from_to(9, 16) : from_to(2, 8));
    if (chance(2)) {
      one.place = {.shape = TopologySpec::Shape::single_switch, .hosts = ranks_};
    } else {
      const std::uint32_t per_leaf = from_to(1, 4);
      one.place = {.shape = TopologySpec::Shape::two_levels,
                   .hosts = per_leaf,
                   .leaves = (ranks_ + per_leaf - 1) / per_leaf,
                   .spines = from_to(1, 3)};
      one.place.placement = one_of(std::array{
          sim::PlacementKind::packed, sim::PlacementKind::spread, sim::PlacementKind::random});
    }
    one.lossless = chance(4);
    one.cut_through = chance(3);
    one.routing =
        one_of(std::array{sim::Routing::ecmp, sim::Routing::adaptive, sim::Routing::destination});
    if (!one.lossless && chance(6)) one.queue_bytes = 4096u << from_to(0, 4);
    one.host_serviced = chance(2);
    if (chance(4)) one.send_queue_chunks = from_to(1, 16);
    if (chance(2)) one.host.jitter = time_up_to(20'000);
    if (chance(8)) one.host.poll = time_up_to(20'000);
  }

  void communicator(Scenario& scenario, std::uint32_t number) {
    ScenarioCommunicator one;
    one.ranks = number == 0 || chance(2) ? ranks_ : from_to(1, ranks_);
    one.rotated = number == 0 ? 0 : from_to(0, ranks_ - 1);
    one.subgroups = chance(3) ? from_to(2, 4) : 1;
    one.chains = chance(3) ? from_to(0, ranks_) : 1;
    one.chunk_bytes = 32u << from_to(0, 3);
    one.staging_chunks = chance(4) ? from_to(2, 24) : 256;
    if (chance(4)) one.window_bytes = std::uint64_t{one.chunk_bytes} * from_to(1, 32);
    one.pulses_in_flight = chance(4) ? from_to(1, 6) : 4;
    one.always_barrier = chance(4);
    if (chance(2)) one.retain_bytes = 1u << from_to(6, 16);
    one.first_epoch = chance(4) ? 0xffff'ffffu - from_to(0, 3) : from_to(0, 3);
    one.reorder_delay = one_of(std::array{Nanoseconds(20'000), Nanoseconds(100'000)});
    if (chance(4)) one.alpha = Nanoseconds(20'000) + time_up_to(500'000);
    if (chance(4)) one.patience = Nanoseconds(300'000) + time_up_to(5'000'000);
    if (chance(3)) one.submitted_ahead = from_to(2, 4);
    if (chance(2)) one.skew = time_up_to(chance(4) ? 5'000'000 : 100'000);
    if (chance(3)) one.compute = time_up_to(300'000);
    const std::uint32_t collectives = from_to(1, 3);
    for (std::uint32_t i = 0; i < collectives; ++i) one.collectives.push_back(collective(one));
    if (chance(8) && number == 0) return scenario.communicators.push_back(one);
    one.faults.seed = random_.next();
    chunk_faults(one);
    frame_faults(one);
    scenario.communicators.push_back(std::move(one));
  }

  CollectiveSpec collective(const ScenarioCommunicator& communicator) {
    CollectiveSpec one;
    const std::uint32_t kind = from_to(0, 15);
    one.kind = kind < 8    ? CollectiveKind::allgather
               : kind < 13 ? CollectiveKind::broadcast
               : kind < 14 ? CollectiveKind::ring_allgather
               : kind < 15 ? CollectiveKind::chain_broadcast
                           : CollectiveKind::barrier;
    if (one.kind == CollectiveKind::barrier) return one;
    const std::uint32_t most = communicator.ranks > 16 ? 2 : (chance(8) ? 40 : 6);
    one.bytes = random_.below(std::uint64_t{communicator.chunk_bytes} * most + 1);
    const bool gathers = kind < 8 || one.kind == CollectiveKind::ring_allgather;
    if (gathers) {
      one.in_place = chance(2);
    } else {
      one.bytes *= chance(2) ? 1 : from_to(1, 4);
      one.root = rank_of(from_to(0, communicator.ranks - 1));
    }
    return one;
  }

  /// Makes a rule that strikes only the first copies of a packet, so that a later copy arrives.
  FaultRule bounded(Action action, device::fault::FaultSite place) {
    FaultRule rule{.action = action, .place = place, .packet = Packet::chunk};
    rule.occurrences = from_to(1, 3);
    static constexpr std::array<std::uint32_t, 5> kRates{10'000, 50'000, 200'000, 500'000,
                                                         1'000'000};
    rule.rate_ppm = one_of(kRates);
    if (rule.rate_ppm == 1'000'000) {
      const std::uint32_t first = from_to(0, 20);
      rule.psns = device::fault::Interval{first, first + from_to(0, 6)};
    }
    if (chance(4)) rule.source = rank_of(from_to(0, ranks_ - 1));
    if (place == device::fault::FaultSite::receiver && chance(3)) {
      rule.ranks.push_back(rank_of(from_to(0, ranks_ - 1)));
    }
    return rule;
  }

  void chunk_faults(ScenarioCommunicator& one) {
    using device::fault::FaultSite::receiver;
    using device::fault::FaultSite::sender;
    auto& rules = one.faults.rules;
    if (chance(2)) rules.push_back(bounded(Action::drop, receiver));
    if (chance(4)) rules.push_back(bounded(Action::drop, sender));
    if (chance(5)) {
      rules.push_back(bounded(Action::delay, receiver));
      rules.back().by = time_up_to(2'000'000);
    }
    if (chance(5)) {
      rules.push_back(bounded(Action::reorder, receiver));
      rules.back().distance = from_to(1, 8);
      rules.back().by = time_up_to(300'000);
    }
    if (chance(5)) {
      rules.push_back(bounded(Action::duplicate, chance(2) ? sender : receiver));
      if (rules.back().place == receiver) rules.back().by = time_up_to(5'000'000);
    }
    if (chance(5)) rules.push_back(bounded(Action::corrupt, receiver));
  }

  void frame_faults(ScenarioCommunicator& one) {
    static constexpr std::array<std::uint32_t, 3> kRates{10'000, 100'000, 300'000};
    FaultRule rule{.place = device::fault::FaultSite::sender, .packet = Packet::reliable};
    if (chance(4)) {
      rule.rate_ppm = one_of(kRates);
      one.faults.rules.push_back(rule);
    }
    if (chance(6)) {
      rule.action = Action::duplicate;
      rule.rate_ppm = one_of(kRates);
      one.faults.rules.push_back(rule);
    }
  }

  static std::uint32_t hosts_of(const Scenario& one) {
    return one.place.shape == TopologySpec::Shape::single_switch
               ? one.place.hosts
               : one.place.hosts * one.place.leaves;
  }

  void network_faults(Scenario& one) {
    static constexpr std::array<std::uint32_t, 4> kLoss{100, 1'000, 10'000, 100'000};
    if (chance(5)) one.loss_ppm = one_of(kLoss);
    const std::uint32_t hosts = hosts_of(one);
    if (chance(5)) {
      for (std::uint32_t i = from_to(1, 3); i > 0; --i) {
        one.pauses.push_back(
            {sim::HostId{from_to(0, hosts - 1)}, moment(), time_up_to(10'000'000)});
      }
    }
    if (chance(10)) {
      one.outages.push_back(
          {static_cast<sim::LinkId>(from_to(0, 2 * hosts - 1)), moment(), time_up_to(5'000'000)});
    }
    if (options_.deaths && chance(12)) {
      one.deaths.push_back({sim::HostId{from_to(0, hosts - 1)}, moment()});
    }
  }

  // ---- features that most scenarios lack ----

  /// Replaces some collectives by tagged messages or by collectives without multicast, and limits
  /// the number of connections of some communicators.
  void widen(Scenario& one) {
    for (ScenarioCommunicator& each : one.communicators) {
      if (each.ranks < 2) continue;
      for (CollectiveSpec& what : each.collectives) {
        if (chance(2)) what = point_to_point(each);
      }
      if (one.connections == ConnectionKind::software && chance(3))
        each.max_connections = from_to(4, 8);
    }
  }

  CollectiveSpec point_to_point(const ScenarioCommunicator& communicator) {
    using enum CollectiveKind;
    CollectiveSpec one;
    one.kind = one_of(std::array{gather, scatter, alltoall, reduce, reduce_scatter, allreduce,
                                 messages, counter_barrier});
    if (moves_no_data(one.kind)) return one;
    const std::uint32_t most = communicator.ranks > 16 ? 2 : 6;
    // Reductions need a multiple of 8 bytes, the size of a word.
    one.bytes = random_.below(std::uint64_t{communicator.chunk_bytes} * most + 1) / 8 * 8;
    if (is_rooted(one.kind)) one.root = rank_of(from_to(0, communicator.ranks - 1));
    return one;
  }

  /// Makes the last rank an aggregator, and all collectives reductions.
  void aggregate(ScenarioCommunicator& one) {
    using enum CollectiveKind;
    constexpr std::uint32_t kMostWords = 2500;
    one.aggregator_slots = from_to(2, 8);
    for (CollectiveSpec& each : one.collectives) {
      each = {.kind = one_of(std::array{reduce, reduce_scatter, allreduce}),
              .bytes = std::uint64_t{8} * from_to(0, chance(2) ? 100 : kMostWords)};
      if (is_rooted(each.kind)) each.root = rank_of(from_to(0, one.ranks - 2));
    }
  }

  // ---- connections that the hosts' software runs ----

  void software(Scenario& one) {
    one.connections = ConnectionKind::software;
    one.host_serviced = false;
    peer_timeout_ = one_of(std::array{Nanoseconds(1'000'000'000), Nanoseconds(1'500'000'000)});
    for (ScenarioCommunicator& each : one.communicators) {
      each.peer_timeout = peer_timeout_;
      // While the engine waits, it polls at the intervals `reorder_delay` and `alpha`. Both are
      // long here, so that a wait of seconds for a failed host, link or path takes few polls.
      each.reorder_delay = Nanoseconds(5'000'000);
      each.alpha = std::max(each.alpha, Nanoseconds(5'000'000));
    }
    if (chance(3)) {
      // A slot exchange needs a send queue that holds whole entries, as the queue of a socket does.
      // The default length therefore replaces the drawn length, which may be too short.
      one.send_queue_chunks = Scenario().send_queue_chunks;
      for (ScenarioCommunicator& each : one.communicators) slot_exchanges(each);
    }
    const sim::HostId host = some_host(one);
    switch (from_to(0, 7)) {
      case 0:
        break;
      case 1:
      case 2:
        one.pauses.push_back({host, moment(), time_lost()});
        break;
      case 3:
        if (options_.deaths) one.deaths.push_back({host, moment()});
        break;
      case 4:
        flaps(one, host);
        break;
      case 5:
        cut(one, host);
        break;
      case 6:
        black_hole(one, host);
        break;
      default:
        replays(one, 8);
        break;
    }
    if (chance(4)) replays(one, 4);
    if (chance(3)) strangers(one);
  }

  /// Runs some collectives by slot exchange, and removes all fault rules, because endpoints with
  /// fault rules have no slot exchange.
  void slot_exchanges(ScenarioCommunicator& one) {
    constexpr std::uint32_t kMaxRanks = 16;
    constexpr std::uint64_t kMostBytes = 2048;
    if (one.ranks < 2 || one.ranks > kMaxRanks) return;
    one.faults.rules.clear();
    one.staging_chunks = ScenarioCommunicator().staging_chunks;
    for (CollectiveSpec& each : one.collectives) {
      if (chance(4)) continue;
      if (each.kind == CollectiveKind::allgather) each.kind = CollectiveKind::slot_allgather;
      if (each.kind == CollectiveKind::broadcast) each.kind = CollectiveKind::slot_broadcast;
      if (each.kind == CollectiveKind::barrier) each.kind = CollectiveKind::slot_barrier;
      if (uses_slots(each.kind)) each.bytes = std::min(each.bytes, kMostBytes);
    }
  }

  /// Draws one of the first N hosts, where N is the number of ranks of the first communicator. With
  /// the placement `packed`, these are the hosts of that communicator.
  sim::HostId some_host(const Scenario& one) {
    return sim::HostId{from_to(0, std::min(ranks_, hosts_of(one)) - 1)};
  }
  /// Draws another one of these hosts; returns `host` if it is the only one.
  sim::HostId other_than(sim::HostId host, const Scenario& one) {
    const std::uint32_t hosts = std::min(ranks_, hosts_of(one));
    return sim::HostId{(index(host) + from_to(1, hosts - 1)) % hosts};
  }
  Instant moment() { return Instant{time_up_to(chance(2) ? 50'000 : 3'000'000).count()}; }
  /// Draws the time for which a host or link is out of use: far below the peer timeout, or far
  /// above it.
  Nanoseconds time_lost() {
    if (chance(2)) return Nanoseconds(1'000'000) + time_up_to(peer_timeout_.count() * 2 / 5);
    return peer_timeout_ * 3 / 2 + time_up_to(peer_timeout_.count());
  }

  /// Adds outages by which the link of a host goes down one or more times.
  void flaps(Scenario& one, sim::HostId host) {
    const std::uint32_t times = from_to(1, 4);
    const bool one_way = chance(3);
    const std::uint32_t link = index(host) + (one_way && chance(2) ? hosts_of(one) : 0);
    const Nanoseconds length = time_lost() / static_cast<std::int64_t>(times);
    Instant at = moment();
    for (std::uint32_t i = 0; i < times; ++i) {
      one.outages.push_back({static_cast<sim::LinkId>(link), at, length, one_way});
      at = at + length + time_up_to(100'000'000);
    }
  }

  /// Adds a fault by which all packets from one host to another vanish.
  void cut(Scenario& one, sim::HostId host) {
    device::sim::PathFault fault{.from = host, .to = other_than(host, one), .at = moment()};
    if (chance(2)) fault.length = time_lost();
    one.path_faults.push_back(fault);
  }

  /// Adds a fault by which long packets from one host to another vanish.
  void black_hole(Scenario& one, sim::HostId host) {
    cut(one, host);
    one.path_faults.back().above_bytes = from_to(150, 700);
  }

  void replays(Scenario& one, std::uint32_t most) {
    const sim::HostId host = some_host(one);
    const sim::HostId other = other_than(host, one);
    for (std::uint32_t i = from_to(1, most); i > 0; --i) {
      one.replays.push_back({.from = host,
                             .to = other,
                             .number = from_to(0, 30),
                             .after = time_up_to(chance(2) ? 1'000'000 : 300'000'000)});
    }
  }

  /// Adds a stranger that sends recorded datagrams again and again, unchanged or forged. The
  /// datagrams are preferably from or to a host that dies or pauses.
  void strangers(Scenario& one) {
    using device::sim::Forgery;
    sim::HostId from = some_host(one);
    if (!one.deaths.empty() && chance(2)) from = one.deaths.back().host;
    if (!one.pauses.empty() && chance(2)) from = one.pauses.back().host;
    const sim::HostId to = other_than(from, one);
    const bool back = chance(3);
    for (std::uint32_t i = from_to(1, 4); i > 0; --i) {
      one.replays.push_back(
          {.from = back ? to : from,
           .to = back ? from : to,
           .number = from_to(0, 15),
           .after = time_up_to(5'000'000),
           .every = Nanoseconds(20'000'000) + time_up_to(180'000'000),
           .forgery = one_of(std::array{Forgery::none, Forgery::none, Forgery::bit,
                                        Forgery::counter, Forgery::address, Forgery::reflection})});
    }
  }

  Random random_;
  std::uint64_t software_seed_;
  std::uint64_t wide_seed_;
  std::uint64_t team_seed_;
  std::uint64_t closing_seed_;
  SwarmOptions options_;
  Nanoseconds peer_timeout_{};
  std::uint32_t ranks_ = 2;
};

}  // namespace

Scenario draw_scenario(std::uint64_t seed, const SwarmOptions& options) {
  return Drawer(seed, options).scenario(seed);
}

SwarmFeatures& SwarmFeatures::operator+=(const SwarmFeatures& other) {
  for (const auto member : {&SwarmFeatures::software,        &SwarmFeatures::slots,
                            &SwarmFeatures::stops,           &SwarmFeatures::deaths,
                            &SwarmFeatures::flaps,           &SwarmFeatures::one_way,
                            &SwarmFeatures::black_holes,     &SwarmFeatures::replays,
                            &SwarmFeatures::strangers,       &SwarmFeatures::point_to_point,
                            &SwarmFeatures::messages,        &SwarmFeatures::atomics,
                            &SwarmFeatures::big_endian,      &SwarmFeatures::conversions,
                            &SwarmFeatures::few_connections, &SwarmFeatures::aggregators,
                            &SwarmFeatures::receive_workers, &SwarmFeatures::uc,
                            &SwarmFeatures::hierarchies,     &SwarmFeatures::closes,
                            &SwarmFeatures::limited_closes}) {
    this->*member += other.*member;
  }
  return *this;
}

SwarmFeatures features_of(const Scenario& scenario) {
  const auto any = [](const auto& list, const auto& has) -> std::uint64_t {
    return std::any_of(list.begin(), list.end(), has) ? 1 : 0;
  };
  const auto one_way = [](const Outage& one) { return one.one_way; };
  const auto whole = [](const device::sim::PathFault& one) { return one.above_bytes == 0; };
  const auto once = [](const device::sim::Replay& one) { return one.every.count() == 0; };
  const auto calls = [](const ScenarioCommunicator& one, const auto& is_of_kind) {
    return std::any_of(one.collectives.begin(), one.collectives.end(),
                       [&](const CollectiveSpec& what) { return is_of_kind(what.kind); });
  };
  const auto runs = [&](const auto& is_of_kind) {
    return any(scenario.communicators,
               [&](const ScenarioCommunicator& one) { return calls(one, is_of_kind); });
  };
  const auto is_message = [](CollectiveKind kind) { return kind == CollectiveKind::messages; };
  const auto between_pairs = [&](CollectiveKind kind) {
    return differs_by_rank(kind) && !is_message(kind);
  };
  const auto counts = [](CollectiveKind kind) { return kind == CollectiveKind::counter_barrier; };
  const auto big_endian = [](const ScenarioCommunicator& one) { return one.big_endian; };
  const auto converts = [&](const ScenarioCommunicator& one) {
    return one.big_endian && calls(one, counts);
  };
  const auto limited = [](const ScenarioCommunicator& one) { return one.max_connections > 0; };
  const auto is_close = [](CollectiveKind kind) { return kind == CollectiveKind::close; };
  const auto aggregated = [](const ScenarioCommunicator& one) { return one.aggregator_slots > 0; };
  const auto by_hosts = [&](const ScenarioCommunicator& one) {
    return has_hierarchy(scenario, one) &&
           std::any_of(one.collectives.begin(), one.collectives.end(), may_go_by_hosts);
  };
  return {.software = scenario.connections == ConnectionKind::software,
          .slots = runs(uses_slots),
          .stops = !scenario.pauses.empty(),
          .deaths = !scenario.deaths.empty(),
          .flaps = !scenario.outages.empty(),
          .one_way = any(scenario.outages, one_way) | any(scenario.path_faults, whole),
          .black_holes = any(scenario.path_faults, std::not_fn(whole)),
          .replays = any(scenario.replays, once),
          .strangers = any(scenario.replays, std::not_fn(once)),
          .point_to_point = runs(between_pairs),
          .messages = runs(is_message),
          .atomics = runs(counts),
          .big_endian = any(scenario.communicators, big_endian),
          .conversions = any(scenario.communicators, converts),
          .few_connections = any(scenario.communicators, limited),
          .aggregators = any(scenario.communicators, aggregated),
          .receive_workers = scenario.receive_workers > 0,
          .uc = scenario.uc_fragments > 0,
          .hierarchies = any(scenario.communicators, by_hosts),
          .closes = runs(is_close),
          .limited_closes = any(scenario.communicators, [&](const ScenarioCommunicator& one) {
            return calls(one, is_close) && limited(one);
          })};
}

namespace {

/// The report and the features of the scenario of one seed.
struct SeedReport {
  WorldReport report;
  SwarmFeatures drawn;
};

/// Number of seeds in a batch. The threads wait for each other at the end of a batch, where the
/// reports are summed up, so a batch must be large.
constexpr std::uint64_t kBatch = 256;

/// Runs the scenarios of the seeds from `first` to `first` + reports.size() - 1.
void run_batch(std::uint64_t first, const SwarmOptions& options, unsigned jobs,
               std::vector<SeedReport>& reports) {
  std::atomic<std::size_t> next{0};
  std::mutex guard;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      for (std::size_t at = next++; at < reports.size(); at = next++) {
        const Scenario scenario = draw_scenario(first + at, options);
        reports[at] = {run_scenario(scenario).report, features_of(scenario)};
      }
    } catch (...) {
      const std::lock_guard lock(guard);
      error = std::current_exception();
    }
  };
  std::vector<std::jthread> threads(jobs);
  try {
    for (unsigned i = 1; i < jobs; ++i) threads[i] = std::jthread(work);
  } catch (const std::system_error&) {
    // The threads that have started, this one included, run all scenarios.
  }
  work();
  threads.clear();  // joins them
  if (error) std::rethrow_exception(error);
}

}  // namespace

SwarmSummary run_swarm(std::uint64_t first, std::uint64_t last, const SwarmOptions& options,
                       const std::function<void(const SwarmSummary&)>& progress, unsigned jobs) {
  SwarmSummary summary;
  std::vector<SeedReport> reports;
  const std::uint64_t most = jobs > 1 ? kBatch : 1;
  bool more = first <= last;
  for (std::uint64_t batch = first; more; batch += reports.size()) {
    // The number of seeds from `batch` to `last` may not fit into 64 bits.
    reports.assign(std::min(most - 1, last - batch) + 1, {});
    more = last - batch >= reports.size();
    run_batch(batch, options, jobs, reports);
    for (std::size_t i = 0; i < reports.size(); ++i) {
      const WorldReport& report = reports[i].report;
      summary.drawn += reports[i].drawn;
      summary.strangers_refused += report.strangers_refused;
      ++summary.seeds;
      summary.events += report.events;
      summary.completed += report.completed;
      summary.failed += report.failed;
      summary.digest = mix(summary.digest ^ report.digest);
      if (!report.verdict.ok()) {
        summary.found = true;
        summary.failing_seed = batch + i;
        summary.failure = report.verdict;
        return summary;
      }
    }
    if (progress) progress(summary);
  }
  return summary;
}

std::string replay_command(std::uint64_t seed, const SwarmOptions& options) {
  std::string text = fmt::format("tutti sim swarm --seeds {}..{}", seed, seed);
  if (options.ranks != 0) text += fmt::format(" --ranks {}", options.ranks);
  if (!options.deaths) text += " --no-deaths";
  if (options.connections) {
    const bool software = *options.connections == ConnectionKind::software;
    text += software ? " --connections software" : " --connections nic";
  }
  return text;
}

}  // namespace tutti::simulation
