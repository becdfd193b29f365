// A message plan on a simulated network: link traffic and time of other libraries' algorithms, as
// run_experiment() gives them for the library's own protocol.
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
  std::uint32_t iterations = 1;  ///< each on an idle network, with its own background traffic
  std::uint64_t seed = 1;        ///< seed of placement, routes and background
  TopologySpec place{};
  /// In the format of Topology::parse; if not empty, it replaces the shape of `place`.
  std::string topology_text;
  sim::TrafficSettings traffic{.trains = true, .posted_ahead = 4};
  bool lossless = true;
  bool leaf_groups = true;
  sim::Routing routing = sim::Routing::ecmp;
  /// Disabled without streams; its seed is drawn. With background traffic, packets are sent singly
  /// instead of in trains, so that other senders share the port packet by packet.
  sim::BackgroundSettings background{};
  observe::Trace* trace = nullptr;  ///< of the first iteration; may be null
};

inline constexpr std::size_t kCountingRules = 5;

struct TrafficReport {
  std::vector<sim::HostId> hosts;        ///< by rank
  std::vector<sim::Picoseconds> times;   ///< by iteration: time to the last rank's end
  std::vector<sim::Picoseconds> finish;  ///< by rank, first iteration
  // Counts of the first iteration:
  std::array<sim::TrafficCount, sim::kLinkClasses> classes{};
  std::array<sim::TrafficCount, kCountingRules> rules{};  ///< by sim::CountingRule
  sim::FabricCounters fabric{};                           ///< sums over all iterations
  std::uint64_t events = 0;
  std::uint64_t digest = 0;
  /// Count of the authors' script for [Khalilov24] fig. 2, in blocks.
  std::uint64_t paper_units = 0;
};

/// Error: the name, the ranks or the network are invalid.
Result<TrafficReport> run_traffic(const TrafficSpec& spec);

}  // namespace tutti::simulation
