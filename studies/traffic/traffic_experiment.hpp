// A message plan on a simulated network: what the peers' algorithms put on the links and how long
// they take, beside run_experiment() with the library's own protocol.
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
  std::string algorithm = "allgather_ring";  ///< a name of sim::plan_catalog()
  std::uint32_t ranks = 8;
  std::uint64_t bytes = 64 * 1024;
  std::uint32_t iterations = 1;  ///< each on an idle network, with background of its own
  std::uint64_t seed = 1;        ///< of placement, routes and background
  TopologySpec place{};
  std::string
      topology_text;  ///< in Topology::parse's format; not empty: instead of `place`'s shape
  sim::TrafficSettings traffic{.trains = true, .posted_ahead = 4};
  bool lossless = true;
  bool leaf_groups = true;
  sim::Routing routing = sim::Routing::ecmp;
  /// None where it has no streams; its seed is drawn. Beside it packets go one by one, no trains:
  /// whoever sends there too shares the port packet by packet.
  sim::BackgroundSettings background{};
  observe::Trace* trace = nullptr;  ///< of the first iteration; null: none
};

inline constexpr std::size_t kCountingRules = 5;

struct TrafficReport {
  std::vector<sim::HostId> hosts;        ///< by rank
  std::vector<sim::Picoseconds> times;   ///< by iteration, to the last rank
  std::vector<sim::Picoseconds> finish;  ///< by rank, of the first iteration
  // Of the first iteration:
  std::array<sim::TrafficCount, sim::kLinkClasses> classes{};
  std::array<sim::TrafficCount, kCountingRules> rules{};  ///< by sim::CountingRule
  sim::FabricCounters fabric{};                           ///< sums over all iterations
  std::uint64_t events = 0;
  std::uint64_t digest = 0;
  std::uint64_t paper_units = 0;  ///< what the authors' script for fig. 2 counts, in blocks
};

/// Refused where the name, the ranks or the network do not fit.
Result<TrafficReport> run_traffic(const TrafficSpec& spec);

}  // namespace tutti::simulation
