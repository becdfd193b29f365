// What a simulated world consists of, and what happens to it: plain data, so that it can be drawn
// from a seed, written down and replayed.
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
  allgather,       ///< by multicast (K7)
  broadcast,       ///< by multicast (K1)
  ring_allgather,  ///< point to point
  chain_broadcast,
  barrier,
};
const char* to_string(CollectiveKind kind);

struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::allgather;
  std::uint64_t bytes = 0;  ///< allgather: of a rank's block; broadcast: of the message
  Rank root = rank_of(0);   ///< broadcast only
  bool in_place = false;    ///< allgather: a rank's block lies in its receive buffer

  friend bool operator==(const CollectiveSpec&, const CollectiveSpec&) = default;
};

/// How long a host's worker takes: it is busy for this long after it has polled, and sleeps when
/// there is nothing to do until something arrives or is due.
struct HostModel {
  Nanoseconds poll{500};     ///< of one communicator
  Nanoseconds chunk{250};    ///< for each chunk received
  Nanoseconds message{150};  ///< for each message or completion
  Nanoseconds jitter{0};     ///< at most so much more, drawn for each poll
  /// Completion moderation: a worker that sleeps is woken for chunks only so long after the first.
  /// Then it also sleeps on at once where a poll brought nothing but chunks, all of which fit.
  Nanoseconds moderation{0};
};

struct CommunicatorSpec {
  std::vector<sim::HostId> hosts{};  ///< by rank
  std::uint32_t subgroups = 1;
  engine::Settings engine{};
  device::sim::NicSettings nic{};
  Nanoseconds peer_timeout{3'000'000'000};
  device::fault::FaultPlan faults{};          ///< none where it has no rules
  std::shared_ptr<device::FrameTap> tap{};    ///< instead of the plan's; may be null
  std::vector<CollectiveSpec> collectives{};  ///< in this order on every rank
  std::uint32_t submitted_ahead = 1;          ///< that a rank has submitted and not seen end
  Nanoseconds skew{0};                        ///< ranks start at up to so much apart
  Nanoseconds compute{0};                     ///< up to so long between two collectives
};

/// A host does nothing for a while. Its NIC goes on, unless it is serviced by the host.
struct Pause {
  sim::HostId host{};
  Instant from{};
  Nanoseconds length{};
};
/// A host is gone from now on.
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

/// A packet that a link loses, by its name in draws; the same both ways around.
struct FabricLoss {
  sim::LinkId link{};
  std::uint64_t identity = 0;

  friend bool operator==(const FabricLoss&, const FabricLoss&) = default;
};

struct WorldConfig {
  std::uint64_t seed = 1;
  const sim::Topology* topology = nullptr;  ///< outlives the world
  sim::FabricSettings fabric{};
  HostModel host{};
  std::vector<CommunicatorSpec> communicators{};
  std::vector<Pause> pauses{};
  std::vector<Death> deaths{};
  std::vector<Outage> outages{};
  std::vector<std::pair<sim::LinkClass, double>> loss{};  ///< probabilities, until `healed`
  std::vector<FabricLoss> toggled_losses{};
  Instant healed = kNever;  ///< from then on the fabric and the taps do no more harm
  std::uint64_t max_events = UINT64_MAX;
  Instant end = kNever;                  ///< it is an error to go on for longer
  sim::BackgroundSettings background{};  ///< until everything is over; none without streams
  observe::Trace* trace = nullptr;       ///< ranks, workers and ports; outlives the world
};

}  // namespace tutti::simulation
