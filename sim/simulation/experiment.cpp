#include "sim/simulation/experiment.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/random.hpp"
#include "sim/simulation/simulation.hpp"

namespace tutti::simulation {

namespace {

constexpr std::uint64_t kBackground = 1;

Result<WorldConfig> make_config(const ExperimentSpec& spec, const sim::Topology& topology) {
  WorldConfig config;
  config.seed = spec.seed;
  config.topology = &topology;
  config.host = spec.host;
  config.fabric.seed = spec.seed;
  config.fabric.flow_control = spec.lossless ? sim::FlowControl::lossless : sim::FlowControl::lossy;
  config.fabric.routing = spec.routing;
  config.fabric.leaf_groups = !spec.per_packet;
  config.background = spec.background;
  config.background.seed = draw(spec.seed, kBackground);
  config.trace = spec.trace;
  if (spec.loss_ppm > 0) {
    for (std::size_t c = 0; c < sim::kLinkClasses; ++c) {
      config.loss.emplace_back(static_cast<sim::LinkClass>(c), spec.loss_ppm * 1e-6);
    }
  }
  CommunicatorSpec communicator;
  auto hosts = sim::place(topology, spec.ranks, spec.place.placement, spec.seed);
  if (!hosts) return hosts.status();
  communicator.hosts = std::move(*hosts);
  communicator.subgroups = spec.subgroups;
  communicator.engine.chains = spec.chains;
  communicator.engine.assumed_bytes_per_second = spec.place.bits_per_second / 8;
  communicator.nic.chunk_bytes = spec.chunk_bytes;
  communicator.nic.staging_chunks = spec.staging_chunks;
  communicator.nic.lossless = spec.lossless;
  communicator.nic.expect_reordering = spec.routing == sim::Routing::adaptive;
  communicator.nic.carry_bytes = spec.carry_bytes;
  if (spec.per_packet) communicator.nic.burst_packets = 1;
  communicator.collectives.assign(std::max(1u, spec.iterations), spec.collective);
  config.communicators.push_back(std::move(communicator));
  return config;
}

void sum_phases(const Simulation& simulation, const ExperimentSpec& spec,
                ExperimentReport& report) {
  for (std::uint32_t r = 0; r < spec.ranks; ++r) {
    const observe::Counters& counters = simulation.context(0, rank_of(r)).counters();
    report.phases.ready_ns += static_cast<double>(counters.ready_phase_ns);
    report.phases.data_ns += static_cast<double>(counters.data_phase_ns);
    report.bytes_fetched += counters.bytes_fetched;
    for (std::uint32_t i = 0; i < spec.iterations; ++i) {
      const CollectiveEnd& end = simulation.end_of(0, rank_of(r), i);
      report.phases.handshake_ns += static_cast<double>((end.ended_at - end.submitted_at).count());
    }
  }
  const double ends = static_cast<double>(spec.ranks) * spec.iterations;
  report.phases.ready_ns /= ends;
  report.phases.data_ns /= ends;
  // All time of a collective outside the ready barrier and the data phase counts as handshake, even
  // the time in which the collective waits for the worker.
  report.phases.handshake_ns = std::max(
      0.0, report.phases.handshake_ns / ends - report.phases.ready_ns - report.phases.data_ns);
}

}  // namespace

TopologySpec default_place(std::uint32_t ranks) {
  TopologySpec place;
  if (ranks <= 36) {
    place.shape = TopologySpec::Shape::single_switch;
    place.hosts = std::max(ranks, 2u);
  } else if (ranks <= 216) {
    place.shape = TopologySpec::Shape::cluster188;
  } else {
    place.shape = TopologySpec::Shape::radix;
    place.spines = 3;
    place.hosts = 32;
    while (std::uint64_t{place.hosts} * place.hosts * place.hosts / 4 < ranks) place.hosts += 2;
    place.leaves = ranks;
  }
  return place;
}

Result<ExperimentReport> run_experiment(const ExperimentSpec& spec) {
  if (spec.ranks < 1 || spec.iterations < 1) {
    return failure(
        Code::invalid_argument,
        "an experiment with {} ranks and {} iterations is not possible: use at least 1 of each",
        spec.ranks, spec.iterations);
  }
  auto topology = spec.topology_text.empty() ? make_topology(spec.place)
                                             : sim::Topology::parse(spec.topology_text);
  if (!topology) return topology.status();
  auto config = make_config(spec, *topology);
  if (!config) return config.status();
  Simulation simulation(std::move(*config));
  if (Status status = simulation.open(); !status) return status;
  const WorldReport run = simulation.run();
  if (!run.verdict.ok()) return run.verdict;
  ExperimentReport report;
  report.events = run.events;
  report.polls = run.polls;
  report.digest = run.digest;
  for (std::uint32_t i = 0; i < spec.iterations; ++i) {
    Instant first = kNever;
    Instant last{};
    for (std::uint32_t r = 0; r < spec.ranks; ++r) {
      const CollectiveEnd& end = simulation.end_of(0, rank_of(r), i);
      first = std::min(first, end.submitted_at);
      last = std::max(last, end.ended_at);
      if (i == 0) report.finish.push_back(end.ended_at - end.submitted_at);
    }
    report.times.push_back(last - first);
  }
  sum_phases(simulation, spec, report);
  for (std::uint32_t r = 0; r < spec.ranks; ++r) {
    const std::uint64_t held = simulation.endpoint(0, rank_of(r)).counters().connections_high_water;
    report.mean_connections += static_cast<double>(held) / spec.ranks;
    report.max_connections = std::max(report.max_connections, held);
  }
  for (std::size_t c = 0; c < sim::kLinkClasses; ++c) {
    report.classes[c] = simulation.network().fabric().class_total(static_cast<sim::LinkClass>(c));
  }
  report.links = topology->links();
  report.fabric = simulation.network().fabric().counters();
  return report;
}

}  // namespace tutti::simulation
