// Runs a message plan on a simulated network. It measures the link traffic and the time of other
// libraries' algorithms, as run_experiment() does for the library's own protocol.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/fabric/background.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/simulation/scenario.hpp"
#include "studies/traffic/traffic_run.hpp"
#include "tutti/status.hpp"

namespace tutti::observe {
class Trace;
}

namespace tutti::simulation {

struct TrafficSpec {
  std::string algorithm = "allgather_ring";  ///< name of a plan in sim::plan_catalog()
  std::uint32_t ranks = 8;
  std::uint64_t bytes = 64 * 1024;
  /// Number of runs of the plan, each on an idle network with new background traffic.
  std::uint32_t iterations = 1;
  std::uint64_t seed = 1;  ///< seed of placement, routes and background traffic
  TopologySpec place{};
  /// Topology in the text format of Topology::parse. Unless empty, it replaces the shape in
  /// `place`.
  std::string topology_text;
  sim::TrafficSettings traffic{.trains = true, .posted_ahead = 4};
  bool lossless = true;
  bool leaf_groups = true;
  sim::Routing routing = sim::Routing::ecmp;
  /// Background traffic, with a new seed for each iteration. With 0 streams there is no background
  /// traffic; otherwise the packets of the plan are sent singly instead of in trains, so that all
  /// senders share a port packet by packet.
  sim::BackgroundSettings background{};
  observe::Trace* trace = nullptr;  ///< trace in which the first iteration is recorded, or null
};

inline constexpr std::size_t kCountingRules = 5;

struct TrafficReport {
  std::vector<sim::HostId> hosts;  ///< hosts of the ranks, indexed by rank
  /// Time until every rank has finished, indexed by iteration.
  std::vector<sim::Picoseconds> times;
  /// Time until each rank has finished the first iteration, indexed by rank.
  std::vector<sim::Picoseconds> finish;
  // The next two fields contain the traffic of the first iteration.
  std::array<sim::TrafficCount, sim::kLinkClasses> classes{};
  /// Traffic of the first iteration, counted by each sim::CountingRule.
  std::array<sim::TrafficCount, kCountingRules> rules{};
  /// Fabric counters, summed over all iterations.
  sim::FabricCounters fabric{};
  std::uint64_t events = 0;
  std::uint64_t digest = 0;
  /// Number of link uses, in blocks, that the script of the authors of [Khalilov24] counts for fig.
  /// 2.
  std::uint64_t paper_units = 0;
};

/// Runs the plan. Error: the name, the number of ranks or the network is invalid.
Result<TrafficReport> run_traffic(const TrafficSpec& spec);

}  // namespace tutti::simulation
