// Swarm testing: draws a scenario from a seed, runs it, and shrinks it if it fails.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/simulation/scenario.hpp"
#include "sim/simulation/scenario_run.hpp"

namespace tutti::simulation {

/// Options that limit the random draws of scenarios.
struct SwarmOptions {
  std::uint32_t ranks = 0;  ///< number of ranks; 0: drawn, mostly 2 to 16
  bool deaths = true;
  /// Kind of all connections; unset: drawn for each scenario. With `nic`, features that need
  /// connections run by software are not drawn.
  std::optional<device::sim::ConnectionKind> connections{};
};

/// Draws the scenario of a seed. Each feature and each kind of fault is absent from some of the
/// scenarios, so that no feature or fault always hides another one.
Scenario draw_scenario(std::uint64_t seed, const SwarmOptions& options = {});

/// For each feature, the number of scenarios that have it.
struct SwarmFeatures {
  /// Scenarios in which the software of the hosts runs the connections.
  std::uint64_t software = 0;
  std::uint64_t slots = 0;  ///< scenarios with slot exchanges
  std::uint64_t stops = 0;  ///< scenarios in which a host's worker pauses
  std::uint64_t deaths = 0;
  std::uint64_t flaps = 0;  ///< scenarios in which links go down and up again
  /// Scenarios in which paths or links are cut in one direction.
  std::uint64_t one_way = 0;
  std::uint64_t black_holes = 0;  ///< scenarios in which paths lose long packets only
  std::uint64_t replays = 0;      ///< scenarios in which recorded packets arrive again
  /// Scenarios in which strangers send recorded or forged packets for ever.
  std::uint64_t strangers = 0;
  /// Scenarios with Gather, Scatter, Alltoall or reductions.
  std::uint64_t point_to_point = 0;
  std::uint64_t messages = 0;    ///< scenarios with tagged messages
  std::uint64_t atomics = 0;     ///< scenarios with Barriers by atomics
  std::uint64_t big_endian = 0;  ///< scenarios with NICs that answer atomics big-endian
  /// Scenarios in which a communicator has Barriers by atomics, and NICs that answer atomics
  /// big-endian.
  std::uint64_t conversions = 0;
  /// Scenarios in which the number of reliable connections is limited, so that one closes to make
  /// room for another one.
  std::uint64_t few_connections = 0;
  std::uint64_t aggregators = 0;      ///< scenarios with reductions by an aggregator
  std::uint64_t receive_workers = 0;  ///< scenarios with receive workers
  std::uint64_t uc = 0;               ///< scenarios with UC multicast
  std::uint64_t hierarchies = 0;      ///< scenarios with hierarchical collectives
  std::uint64_t closes = 0;           ///< scenarios in which ranks close their communicators
  /// Scenarios in which ranks close communicators whose number of connections is limited.
  std::uint64_t limited_closes = 0;

  SwarmFeatures& operator+=(const SwarmFeatures& other);
};

/// The features of one scenario, as counts: 1 for each feature that the scenario has, and 0 for
/// each other feature.
SwarmFeatures features_of(const Scenario& scenario);

/// The result of running a range of seeds.
struct SwarmSummary {
  SwarmFeatures drawn;
  std::uint64_t seeds = 0;
  std::uint64_t events = 0;
  std::uint64_t completed = 0;  ///< number of collectives without an error, summed over the ranks
  /// Number of collectives that ended with an error, summed over the ranks.
  std::uint64_t failed = 0;
  std::uint64_t strangers_refused = 0;  ///< forged or repeated datagrams that ranks refused
  std::uint64_t digest = 0;
  bool found = false;  ///< whether a seed failed
  std::uint64_t failing_seed = 0;
  Status failure;
};

/// Runs the scenarios of the seeds `first` to `last` on `jobs` threads, and stops at the first seed
/// that fails. The calling thread calls `progress` with the summary so far after each batch of
/// seeds. The final summary does not depend on `jobs`.
SwarmSummary run_swarm(std::uint64_t first, std::uint64_t last, const SwarmOptions& options = {},
                       const std::function<void(const SwarmSummary&)>& progress = {},
                       unsigned jobs = 1);

/// A function that tells whether a smaller scenario still shows the failure.
using Fails = std::function<bool(const Scenario&)>;

/// Returns a smaller scenario that also fails: its faults are listed singly, and it has fewer
/// faults, ranks, collectives, bytes and features. Runs at most `budget` scenarios.
Scenario shrink(const Scenario& scenario, const Fails& fails, std::uint32_t budget = 4000);

/// The command that runs one seed again, such as "tutti sim swarm --seeds 7..7".
std::string replay_command(std::uint64_t seed, const SwarmOptions& options = {});

}  // namespace tutti::simulation
