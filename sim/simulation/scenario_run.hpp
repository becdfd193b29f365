// Runs a scenario and checks its result.
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

/// The result of a scenario and the faults that occurred in it.
struct ScenarioResult {
  WorldReport report;
  /// Frame faults that occurred, indexed by communicator.
  std::vector<std::vector<FrameFault>> frames;
  std::vector<FabricLoss> losses;
  device::fault::Injected injected{};
  /// Bytes that ranks fetched from their neighbours, or multicast again, after a loss.
  std::uint64_t recovered_bytes = 0;
  /// Number of payload bytes that receivers did not get because of drops and corruption.
  std::uint64_t lost_bytes = 0;
  std::uint64_t staging_drops = 0;
  /// Bytes that all ranks sent by multicast and on connections.
  std::uint64_t sent_bytes = 0;
  /// Number of packets of reliable connections that were lost because of path faults.
  std::uint64_t path_losses = 0;
  std::uint64_t replayed = 0;  ///< number of recorded packets that strangers sent again
};

/// A scenario that is set up as a simulation.
class ScenarioWorld {
 public:
  static Result<std::unique_ptr<ScenarioWorld>> create(const Scenario& scenario);
  ~ScenarioWorld();

  Simulation& simulation() { return *world_; }
  const sim::Topology& topology() const { return topology_; }
  /// Runs the simulation with its checks, then the checks that depend on the faults of the
  /// scenario.
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
  Status check_closes();
  Status check_no_rank_was_skipped(const ScenarioResult& result);
  Status check_staging(const ScenarioResult& result);
  Status check_nothing_was_recovered(const ScenarioResult& result);

  Scenario scenario_;
  sim::Topology topology_;
  std::vector<std::shared_ptr<ScriptedTap>> taps_;
  std::unique_ptr<Simulation> world_;
};

/// Sets up and runs a scenario; if the setup fails, the verdict contains the reason.
ScenarioResult run_scenario(const Scenario& scenario);

}  // namespace tutti::simulation
