// Swarm testing: draws a scenario from a seed, runs it, and shrinks it if it fails.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/simulation/scenario.hpp"
#include "sim/simulation/scenario_run.hpp"

namespace tutti::simulation {

/// Limits of the draws.
struct SwarmOptions {
  std::uint32_t ranks = 0;  ///< 0: drawn, mostly 2 to 16
  bool deaths = true;
};

/// The scenario of a seed. Each kind of fault and each feature is left out half of the time, so
/// that none hides another.
Scenario draw_scenario(std::uint64_t seed, const SwarmOptions& options = {});

/// The result of a range of seeds.
struct SwarmSummary {
  std::uint64_t seeds = 0;
  std::uint64_t events = 0;
  std::uint64_t completed = 0;  ///< collectives times ranks
  std::uint64_t failed = 0;     ///< collectives that ended through a death
  std::uint64_t digest = 0;
  bool found = false;  ///< a seed failed
  std::uint64_t failing_seed = 0;
  Status failure;
};

/// Runs the seeds [first, last] on `jobs` threads, up to the first seed that fails. The summary
/// does not depend on `jobs`. The caller's thread calls `progress` as seeds are added.
SwarmSummary run_swarm(std::uint64_t first, std::uint64_t last, const SwarmOptions& options = {},
                       const std::function<void(const SwarmSummary&)>& progress = {},
                       unsigned jobs = 1);

/// Whether a scenario still shows the failure.
using Fails = std::function<bool(const Scenario&)>;

/// A smaller scenario that also fails: fewer faults, listed singly, then fewer ranks, collectives,
/// bytes and features. Tries at most `budget` scenarios.
Scenario shrink(const Scenario& scenario, const Fails& fails, std::uint32_t budget = 4000);

/// The command that repeats a seed: "tutti sim swarm --seeds 7..7".
std::string replay_command(std::uint64_t seed, const SwarmOptions& options = {});

}  // namespace tutti::simulation
