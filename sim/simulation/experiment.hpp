// Runs one collective on a simulated network, without faults except random loss of packets, and
// measures the time and the traffic of the collective.
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
  /// Topology in the text format of Topology::parse. Unless empty, it replaces the shape in
  /// `place`.
  std::string topology_text;
  std::uint32_t subgroups = 1;
  std::uint32_t chains = 1;  ///< number of chains; 0: chosen by the send schedule
  std::uint32_t chunk_bytes = 4096;
  std::uint32_t staging_chunks = 8192;
  bool lossless = true;
  sim::Routing routing = sim::Routing::ecmp;
  std::uint32_t loss_ppm = 0;
  /// Whether the data is carried and checked; if false, bytes are only counted.
  bool carry_bytes = false;
  /// Whether each arrival of a packet at a host is a separate event. If not, one event may
  /// represent a train of packets, or the same packet at several hosts.
  bool per_packet = false;
  /// Background traffic, whose seed is drawn from `seed`. With 0 streams there is none.
  sim::BackgroundSettings background{};
  observe::Trace* trace = nullptr;  ///< trace in which the run is recorded, or null
  HostModel host{.moderation = Nanoseconds(4'000)};
};

/// Time spent in each phase, in nanoseconds, averaged over the ranks and iterations.
struct PhaseTimes {
  double ready_ns = 0;
  double data_ns = 0;
  double handshake_ns = 0;
};

struct ExperimentReport {
  /// Duration of each iteration, from the first rank's call to the last rank's end.
  std::vector<Nanoseconds> times;
  /// Duration of the first iteration at each rank, from the call to the end of the collective
  /// there; indexed by rank.
  std::vector<Nanoseconds> finish;
  PhaseTimes phases;
  std::array<sim::TrafficCount, sim::kLinkClasses> classes{};
  std::uint64_t links = 0;
  sim::FabricCounters fabric{};
  std::uint64_t bytes_fetched = 0;
  /// Peak number of reliable connections of a rank, averaged over the ranks.
  double mean_connections = 0;
  /// Peak number of reliable connections of the rank that held the most.
  std::uint64_t max_connections = 0;
  std::uint64_t events = 0;
  std::uint64_t polls = 0;
  std::uint64_t digest = 0;
};

/// The default network: a single switch for up to 36 ranks; Topology::cluster188(), which has
/// positions for 216 hosts, for up to 216 ranks; and a three-level fat tree for more ranks.
TopologySpec default_place(std::uint32_t ranks);
/// Parses "single:8", "tree:LEAVESxHOSTSxSPINES", "cluster188" or "radix:RxLEVELS[xHOSTS]".
Result<TopologySpec> parse_place(std::string_view text);
/// The topology as text, from which parse_place() makes an equal topology.
std::string to_string(const TopologySpec& place);

/// Runs the experiment. Error: the experiment cannot be set up, or a check failed.
Result<ExperimentReport> run_experiment(const ExperimentSpec& spec);

}  // namespace tutti::simulation
