// Swarm testing: a scenario drawn from a seed, run, and where it fails shrunk to a few lines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/simulation/scenario.hpp"
#include "sim/simulation/scenario_run.hpp"

namespace tutti::simulation {

/// What the draws may use.
struct SwarmOptions {
  std::uint32_t ranks = 0;  ///< 0: drawn, 2 to 16 mostly
  bool deaths = true;
};

/// The scenario of a seed. Each kind of fault and each feature is left out half of the time, so
/// that no fault hides another.
Scenario draw_scenario(std::uint64_t seed, const SwarmOptions& options = {});

/// What a range of seeds came to.
struct SwarmSummary {
  std::uint64_t seeds = 0;
  std::uint64_t events = 0;
  std::uint64_t completed = 0;  ///< collectives times ranks
  std::uint64_t failed = 0;     ///< those that a death ended
  std::uint64_t digest = 0;
  bool found = false;  ///< a seed failed
  std::uint64_t failing_seed = 0;
  Status failure;
};

/// Runs the seeds [first, last] by `jobs` threads; the summary is the same whatever their number,
/// and ends with the first seed that fails. `progress` is told, by the caller's thread, as seeds
/// are added to it.
SwarmSummary run_swarm(std::uint64_t first, std::uint64_t last, const SwarmOptions& options = {},
                       const std::function<void(const SwarmSummary&)>& progress = {},
                       unsigned jobs = 1);

/// Decides whether a scenario still shows what is looked for.
using Fails = std::function<bool(const Scenario&)>;

/// A smaller scenario that fails as well: fewer faults, each by itself, then fewer ranks,
/// collectives, bytes and features. Tries at most `budget` scenarios.
Scenario shrink(const Scenario& scenario, const Fails& fails, std::uint32_t budget = 4000);

/// "tutti sim swarm --seeds 7..7": what a person types to see a failure again.
std::string replay_command(std::uint64_t seed, const SwarmOptions& options = {});

}  // namespace tutti::simulation
