// Runs a scenario and judges it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/fabric/topology.hpp"
#include "sim/simulation/scenario.hpp"
#include "sim/simulation/simulation.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

/// What came of a scenario, with the faults that did happen.
struct ScenarioResult {
  WorldReport report;
  std::vector<std::vector<FrameFault>> frames;  ///< by communicator
  std::vector<FabricLoss> losses;
  device::fault::Injected injected{};
  std::uint64_t recovered_bytes = 0;  ///< fetched, or multicast again for a loss
  std::uint64_t lost_bytes = 0;       ///< what receivers lacked by drops and damage
  std::uint64_t staging_drops = 0;
};

/// A scenario put up as a world.
class ScenarioWorld {
 public:
  static Result<std::unique_ptr<ScenarioWorld>> create(const Scenario& scenario);
  ~ScenarioWorld();

  Simulation& simulation() { return *world_; }
  const sim::Topology& topology() const { return topology_; }
  /// Runs it and applies, beside the world's own checks, those that hold for such a scenario.
  ScenarioResult run();

 private:
  class ScriptedTap;

  ScenarioWorld(const Scenario& scenario, sim::Topology topology)
      : scenario_(scenario), topology_(std::move(topology)) {}
  Status open();
  CommunicatorSpec make_communicator(const ScenarioCommunicator& from,
                                     const std::vector<sim::HostId>& places);
  void sum_up(ScenarioResult& result);
  Status check_costs(const ScenarioResult& result);
  Status check_nobody_was_skipped(const ScenarioResult& result);
  Status check_staging(const ScenarioResult& result);
  Status check_nothing_was_recovered(const ScenarioResult& result);

  Scenario scenario_;
  sim::Topology topology_;
  std::vector<std::shared_ptr<ScriptedTap>> taps_;
  std::unique_ptr<Simulation> world_;
};

/// Creates and runs; the verdict of a scenario that cannot be put up says why.
ScenarioResult run_scenario(const Scenario& scenario);

}  // namespace tutti::simulation
