// One collective on a simulated network, measured for time and traffic without faults.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/fabric/background.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/simulation/config.hpp"
#include "sim/simulation/scenario.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

struct ExperimentSpec {
  CollectiveSpec collective{
      .kind = CollectiveKind::allgather, .bytes = 64 * 1024, .in_place = true};
  std::uint32_t ranks = 8;
  std::uint32_t iterations = 1;
  std::uint64_t seed = 1;
  TopologySpec place{};
  /// In the format of Topology::parse; if not empty, it replaces the shape of `place`.
  std::string topology_text;
  std::uint32_t subgroups = 1;
  std::uint32_t chains = 1;  ///< 0: chosen by the learned send schedule
  std::uint32_t chunk_bytes = 4096;
  std::uint32_t staging_chunks = 8192;
  bool lossless = true;
  sim::Routing routing = sim::Routing::ecmp;
  std::uint32_t loss_ppm = 0;
  bool carry_bytes = false;  ///< if false, bytes are only counted
  bool per_packet = false;   ///< one event for each packet at each host: no trains, no leaf groups
  sim::BackgroundSettings background{};  ///< disabled without streams; its seed is drawn
  observe::Trace* trace = nullptr;       ///< may be null
  HostModel host{.moderation = Nanoseconds(4'000)};
};

/// Mean nanoseconds that ranks spent in each phase.
struct PhaseTimes {
  double ready_ns = 0;
  double data_ns = 0;
  double handshake_ns = 0;
};

struct ExperimentReport {
  std::vector<Nanoseconds> times;   ///< by iteration: first call to last end
  std::vector<Nanoseconds> finish;  ///< by rank, first iteration: its call to its end
  PhaseTimes phases;                ///< of the first iteration
  std::array<sim::TrafficCount, sim::kLinkClasses> classes{};
  std::uint64_t links = 0;
  sim::FabricCounters fabric{};
  std::uint64_t bytes_fetched = 0;
  std::uint64_t events = 0;
  std::uint64_t polls = 0;
  std::uint64_t digest = 0;
};

/// The smallest usual network for a number of ranks: one switch up to 36, the system of 188 nodes
/// up to 216, beyond it a fat tree of three levels.
TopologySpec default_place(std::uint32_t ranks);
/// Reads "single:8", "tree:LEAVESxHOSTSxSPINES", "cluster188", "radix:RxLEVELS[xHOSTS]".
Result<TopologySpec> parse_place(std::string_view text);
/// The text that parse_place() reads.
std::string to_string(const TopologySpec& place);

/// Runs the experiment. Error: it cannot be set up, or a check fails.
Result<ExperimentReport> run_experiment(const ExperimentSpec& spec);

}  // namespace tutti::simulation
