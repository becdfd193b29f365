// A scenario: the description of one simulated run in a few lines of text. The swarm draws
// scenarios from seeds, the shrinker reduces a failing scenario, and `tutti sim replay` runs one.
//
//   seed=7 topology=single:3 jitter=300ns
//   communicator ranks=3 chunk=64 chains=2 epoch=4294967295
//   run allgather:100 broadcast:64:1
//   fault drop receiver chunk psn=3 ranks=2 occurrences=1
//   frame drop 1>2 #5
//   pause 2 at=1ms for=3ms
//   path 0>1 at=1ms above=300
//   replay 0>1 #5 after=20ms every=100ms forged=bit
//   multicast 2 expired at=600s
//
// The words of a line may come in any order, and omitted words have defaults. `run`, `fault` and
// `frame` lines belong to the communicator line above them; hosts are numbered as in the topology.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/fabric/topology.hpp"
#include "sim/simulation/config.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

/// A fault of one frame on a reliable connection. `number` is the index of the frame, from 0, among
/// all frames that its sender sends to its receiver.
struct FrameFault {
  bool duplicate = false;  ///< whether the frame is duplicated; if false, it is lost
  Rank from = kNoRank;
  Rank to = kNoRank;
  std::uint32_t number = 0;

  friend bool operator==(const FrameFault&, const FrameFault&) = default;
};

/// The topology of a scenario's network.
struct TopologySpec {
  enum class Shape : std::uint8_t { single_switch, two_levels, cluster188, radix };
  Shape shape = Shape::single_switch;
  /// The meaning depends on `shape`: number of hosts (single_switch), number of hosts per leaf
  /// (two_levels), or number of ports per switch (radix).
  std::uint32_t hosts = 8;
  /// The meaning depends on `shape`: number of leaf switches (two_levels), or number of hosts
  /// (radix). The hosts of a radix topology fill the leaves in order; 0 means a host at every
  /// position.
  std::uint32_t leaves = 0;
  /// The meaning depends on `shape`: number of spine switches (two_levels), or number of levels
  /// (radix).
  std::uint32_t spines = 1;
  std::uint64_t bits_per_second = 56'000'000'000;
  sim::PlacementKind placement = sim::PlacementKind::packed;

  friend bool operator==(const TopologySpec&, const TopologySpec&) = default;
};

struct ScenarioCommunicator {
  std::uint32_t ranks = 2;
  /// Rotation of the ranks over the hosts: rank r runs on the host with index r + rotated, modulo
  /// the number of hosts in use.
  std::uint32_t rotated = 0;
  std::uint32_t subgroups = 1;
  std::uint32_t chains = 1;
  std::uint32_t chunk_bytes = 64;
  std::uint32_t staging_chunks = 256;
  /// Credits allow at most this many bytes in flight; 0: as many as fit into the posted receives.
  std::uint64_t window_bytes = 0;
  std::uint32_t pulses_in_flight = 4;
  bool always_barrier = false;
  std::uint64_t retain_bytes = 0;
  std::uint32_t first_epoch = 1;
  Nanoseconds reorder_delay{100'000};
  Nanoseconds alpha{300'000};
  Nanoseconds patience{3'000'000};
  Nanoseconds linger{200'000};
  Nanoseconds peer_timeout{200'000'000};
  std::uint32_t max_connections = 0;  ///< 0: no limit
  bool big_endian = false;            ///< NicSettings::big_endian_atomics
  /// The aggregator, which is the last rank, has this many window slots for each other rank; 0: no
  /// aggregator. A communicator with an aggregator runs reductions only.
  std::uint32_t aggregator_slots = 0;
  std::uint32_t submitted_ahead = 1;
  Nanoseconds skew{0};
  Nanoseconds compute{0};
  std::vector<CollectiveSpec> collectives{};
  device::fault::FaultPlan faults{};
  std::vector<FrameFault> frames{};

  friend bool operator==(const ScenarioCommunicator&, const ScenarioCommunicator&) = default;
};

struct Scenario {
  std::uint64_t seed = 1;
  TopologySpec place{};
  bool lossless = false;
  bool cut_through = false;
  sim::Routing routing = sim::Routing::ecmp;
  std::uint64_t queue_bytes = 1u << 20;
  device::sim::ConnectionKind connections = device::sim::ConnectionKind::nic;
  bool host_serviced = false;
  bool carry_bytes = true;
  std::uint32_t send_queue_chunks = 256;
  /// Number of consecutive ranks that count as a host in hierarchical collectives; 0: no hierarchy.
  /// A communicator whose ranks cannot be divided into hosts of this size has no hierarchy.
  std::uint32_t ranks_per_host = 0;
  /// A UC message has at most this many fragments, each with a payload of at most the `chunk_bytes`
  /// of the communicator. 0: UD multicast.
  std::uint32_t uc_fragments = 0;
  /// Number of receive workers of each rank, but at most one for each subgroup.
  std::uint32_t receive_workers = 0;
  /// Loss probability on every link until `healed`, in parts per million.
  std::uint32_t loss_ppm = 0;
  HostModel host{};
  Nanoseconds healed{50'000'000};
  Nanoseconds limit{30'000'000'000};
  std::vector<ScenarioCommunicator> communicators{};
  std::vector<Pause> pauses{};
  std::vector<Death> deaths{};
  std::vector<Outage> outages{};
  std::vector<device::sim::PathFault> path_faults{};
  std::vector<device::sim::Replay> replays{};
  std::vector<device::sim::GroupFault> group_faults{};
  std::vector<FabricLoss> toggled_losses{};

  /// The scenario as text, from which parse() makes an equal scenario.
  std::string to_string() const;
  /// Parses a scenario. Error (invalid_argument): names the wrong line and the accepted forms.
  static Result<Scenario> parse(std::string_view text);
};

/// Whether a communicator of a scenario has a hierarchy.
inline bool has_hierarchy(const Scenario& scenario, const ScenarioCommunicator& one) {
  const std::uint32_t each = scenario.ranks_per_host;
  return each >= 2 && one.ranks > each && one.ranks % each == 0 && one.aggregator_slots == 0;
}

/// Builds the topology of a scenario's network.
Result<sim::Topology> make_topology(const TopologySpec& place);

}  // namespace tutti::simulation
