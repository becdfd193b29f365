// The configuration of a simulation and its faults: plain data, which can be drawn from a seed,
// written as text and replayed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/frame_tap.hpp"
#include "engine/core/settings.hpp"
#include "sim/device/nic_settings.hpp"
#include "sim/fabric/background.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/fabric/topology.hpp"
#include "sim/fault/fault_plan.hpp"
#include "tutti/units.hpp"

namespace tutti::observe {
class Trace;
}

namespace tutti::simulation {

enum class CollectiveKind : std::uint8_t {
  allgather,       ///< by multicast [Khalilov24] 4.1
  broadcast,       ///< by multicast [Khalilov24] 3
  ring_allgather,  ///< point to point
  chain_broadcast,
  barrier,
};
const char* to_string(CollectiveKind kind);

struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::allgather;
  std::uint64_t bytes = 0;  ///< Allgather: size of a rank's block; Broadcast: of the message
  Rank root = rank_of(0);   ///< Broadcast only
  bool in_place = false;    ///< Allgather: a rank's block lies in its receive buffer

  friend bool operator==(const CollectiveSpec&, const CollectiveSpec&) = default;
};

/// The time that a host's worker takes. It is busy this long after a poll, and sleeps if it has
/// nothing to do until something arrives or is due.
struct HostModel {
  Nanoseconds poll{500};     ///< cost of polling one communicator
  Nanoseconds chunk{250};    ///< cost of each chunk received
  Nanoseconds message{150};  ///< cost of each message or completion
  Nanoseconds jitter{0};     ///< largest extra cost, drawn for each poll
  /// Completion moderation: chunks wake a sleeping worker only this long after the first of them.
  /// The worker then also sleeps again at once after a poll that brought nothing but chunks, all of
  /// which fit.
  Nanoseconds moderation{0};
};

struct CommunicatorSpec {
  std::vector<sim::HostId> hosts{};  ///< host, by rank
  std::uint32_t subgroups = 1;
  engine::Settings engine{};
  device::sim::NicSettings nic{};
  Nanoseconds peer_timeout{3'000'000'000};
  device::fault::FaultPlan faults{};          ///< empty if there are no faults
  std::shared_ptr<device::FrameTap> tap{};    ///< replaces the plan's tap; may be null
  std::vector<CollectiveSpec> collectives{};  ///< run in this order by every rank
  /// Collectives that a rank has submitted and that have not ended.
  std::uint32_t submitted_ahead = 1;
  Nanoseconds skew{0};     ///< largest difference between the starts of ranks
  Nanoseconds compute{0};  ///< longest computation between two collectives
};

/// A host does nothing for a while. Its NIC continues unless the host serves it.
struct Pause {
  sim::HostId host{};
  Instant from{};
  Nanoseconds length{};
};
/// A host dies.
struct Death {
  sim::HostId host{};
  Instant at{};
};
/// A link is down for a while.
struct Outage {
  sim::LinkId link{};
  Instant from{};
  Nanoseconds length{};
};

/// A packet that a link loses, or whose draw is inverted, by its key in draws.
struct FabricLoss {
  sim::LinkId link{};
  std::uint64_t identity = 0;

  friend bool operator==(const FabricLoss&, const FabricLoss&) = default;
};

struct WorldConfig {
  std::uint64_t seed = 1;
  const sim::Topology* topology = nullptr;  ///< outlives the simulation
  sim::FabricSettings fabric{};
  HostModel host{};
  std::vector<CommunicatorSpec> communicators{};
  std::vector<Pause> pauses{};
  std::vector<Death> deaths{};
  std::vector<Outage> outages{};
  std::vector<std::pair<sim::LinkClass, double>> loss{};  ///< loss probabilities, until `healed`
  std::vector<FabricLoss> toggled_losses{};
  Instant healed = kNever;  ///< fabric and taps inject no faults from then on
  std::uint64_t max_events = UINT64_MAX;
  Instant end = kNever;  ///< running longer is an error
  /// Runs until all collectives are over; disabled without streams.
  sim::BackgroundSettings background{};
  observe::Trace* trace = nullptr;  ///< records ranks, workers and ports; outlives the simulation
};

}  // namespace tutti::simulation
