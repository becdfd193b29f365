#include "studies/traffic/traffic_experiment.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/random.hpp"
#include "sim/fabric/port_trace.hpp"
#include "studies/traffic/plan_catalog.hpp"

namespace tutti::simulation {
namespace {

constexpr std::uint64_t kBackground = 1;
// Time for which background traffic runs before the collective starts.
constexpr sim::Picoseconds kWarmUp = sim::microseconds(200);

sim::FabricSettings fabric_settings(const TrafficSpec& spec) {
  sim::FabricSettings settings;
  settings.seed = spec.seed;
  settings.flow_control = spec.lossless ? sim::FlowControl::lossless : sim::FlowControl::lossy;
  settings.routing = spec.routing;
  settings.leaf_groups = spec.leaf_groups;
  return settings;
}

void note_first(const sim::Fabric& fabric, const sim::TrafficRun& run, const TrafficSpec& spec,
                sim::Picoseconds start, TrafficReport& report) {
  for (std::size_t c = 0; c < sim::kLinkClasses; ++c) {
    report.classes[c] = fabric.class_total(static_cast<sim::LinkClass>(c));
  }
  for (std::size_t r = 0; r < kCountingRules; ++r) {
    report.rules[r] = sim::count_traffic(fabric, static_cast<sim::CountingRule>(r));
  }
  for (std::uint32_t rank = 0; rank < spec.ranks; ++rank) {
    const sim::Picoseconds at = run.finish_time(rank);
    report.finish.push_back(at.count == 0 ? at : at - start);
  }
}

void add(const sim::FabricCounters& one, sim::FabricCounters& sum) {
  sum.injected += one.injected;
  sum.hops += one.hops;
  sum.delivered += one.delivered;
  sum.dropped += one.dropped;
  sum.in_flight += one.in_flight;
  sum.blocked += one.blocked;
  sum.train_conflicts += one.train_conflicts;
  sum.leaf_events += one.leaf_events;
  sum.absorbed += one.absorbed;
  sum.most_open_reductions = std::max(sum.most_open_reductions, one.most_open_reductions);
}

Status run_once(const TrafficSpec& spec, const sim::Topology& topology,
                const sim::MessagePlan& plan, std::uint32_t iteration, TrafficReport& report) {
  sim::EventQueue queue;
  sim::TrafficSettings settings = spec.traffic;
  if (spec.background.streams > 0) settings.trains = false;
  sim::TrafficRun run(queue, plan, report.hosts, settings);
  sim::Fabric fabric(queue, topology, fabric_settings(spec), run);
  std::unique_ptr<sim::PortTrace> ports;
  if (spec.trace != nullptr && iteration == 0) {
    ports = std::make_unique<sim::PortTrace>(*spec.trace, topology);
    fabric.observe_ports(ports.get());
  }
  sim::BackgroundSettings noise = spec.background;
  noise.seed = draw(spec.seed, kBackground, iteration);
  sim::BackgroundTraffic background(queue, fabric, noise);
  sim::Picoseconds start{};
  if (noise.streams > 0) {
    start = kWarmUp;
    background.start({});
    sim::Event event;
    while (queue.next_time() < start && queue.pop(event)) {
      if (kind_of(event) == sim::EventKind::background) {
        background.handle(event);
      } else {
        fabric.handle(event);
      }
    }
  }
  if (Status begun = run.begin(fabric, start); !begun) return begun;
  if (Status done = run.run(noise.streams > 0 ? &background : nullptr); !done) return done;
  report.times.push_back(run.finish_time() - start);
  if (iteration == 0) note_first(fabric, run, spec, start, report);
  add(fabric.counters(), report.fabric);
  report.events += queue.popped();
  report.digest = mix(report.digest ^ queue.digest());
  return {};
}

}  // namespace

Result<TrafficReport> run_traffic(const TrafficSpec& spec) {
  if (spec.ranks < 1 || spec.iterations < 1) {
    return failure(Code::invalid_argument,
                   "a traffic experiment with {} ranks and {} iterations is not possible: use at "
                   "least 1 of each",
                   spec.ranks, spec.iterations);
  }
  auto topology = spec.topology_text.empty() ? make_topology(spec.place)
                                             : sim::Topology::parse(spec.topology_text);
  if (!topology) return topology.status();
  auto plan = sim::plan_by_name(spec.algorithm, spec.ranks, spec.bytes);
  if (!plan) return plan.status();
  auto hosts = sim::place(*topology, spec.ranks, spec.place.placement, spec.seed);
  if (!hosts) return hosts.status();
  TrafficReport report;
  report.hosts = std::move(*hosts);
  if (spec.bytes > 0) report.paper_units = sim::paper_link_units(*plan, spec.bytes);
  for (std::uint32_t i = 0; i < spec.iterations; ++i) {
    if (Status done = run_once(spec, *topology, *plan, i, report); !done) return done;
  }
  return report;
}

}  // namespace tutti::simulation
