// The configuration of a simulation and its faults, as plain data that can be drawn from a seed,
// written as text and replayed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/frame_tap.hpp"
#include "engine/aggregate/window_plan.hpp"
#include "engine/core/settings.hpp"
#include "sim/device/group_faults.hpp"
#include "sim/device/nic_settings.hpp"
#include "sim/device/path_faults.hpp"
#include "sim/fabric/background.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/fabric/topology.hpp"
#include "sim/fault/fault_plan.hpp"
#include "sim/uc/fragment_queue_pair.hpp"
#include "tutti/units.hpp"

namespace tutti::observe {
class Trace;
}

namespace tutti::simulation {

enum class CollectiveKind : std::uint8_t {
  allgather,       ///< multicast Allgather [Khalilov24] 4.1
  broadcast,       ///< multicast Broadcast [Khalilov24] 3
  ring_allgather,  ///< point-to-point Allgather in a ring
  chain_broadcast,
  barrier,
  counter_barrier,  ///< Barrier by atomics
  // The next six collectives are point-to-point: gather, scatter and reduce by `binomial`, alltoall
  // by `pairwise`, reduce_scatter and allreduce by `ring`.
  gather,
  scatter,
  alltoall,
  reduce,  ///< reduce, reduce_scatter and allreduce compute sums of 64-bit words
  reduce_scatter,
  allreduce,
  messages,  ///< no collective: each rank sends a tagged message to its right neighbour
  // The next three collectives run by slot exchange between hosts.
  slot_allgather,
  slot_broadcast,
  slot_barrier,
  close,  ///< each rank closes its communicator; allowed only as the last collective
  leave,  ///< the ranks tell their aggregator that they make no further calls
};
constexpr bool uses_slots(CollectiveKind kind) {
  return kind >= CollectiveKind::slot_allgather && kind <= CollectiveKind::slot_barrier;
}
/// Whether collectives of this kind move no data between ranks.
constexpr bool moves_no_data(CollectiveKind kind) {
  return kind == CollectiveKind::barrier || kind == CollectiveKind::counter_barrier ||
         kind >= CollectiveKind::slot_barrier;
}
/// Whether the ranks receive different bytes, or bytes that no rank has sent, such as sums. The
/// expected result of each rank is then computed from the bytes that all ranks send, so the packets
/// must carry bytes.
constexpr bool differs_by_rank(CollectiveKind kind) {
  return kind >= CollectiveKind::gather && kind <= CollectiveKind::messages;
}
constexpr bool reduces(CollectiveKind kind) {
  return kind >= CollectiveKind::reduce && kind <= CollectiveKind::allreduce;
}
constexpr bool is_rooted(CollectiveKind kind) {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::chain_broadcast ||
         kind == CollectiveKind::slot_broadcast || kind == CollectiveKind::gather ||
         kind == CollectiveKind::scatter || kind == CollectiveKind::reduce;
}
const char* to_string(CollectiveKind kind);

struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::allgather;
  /// Size in bytes of one block, or of the whole buffer in a collective without blocks, such as
  /// Broadcast.
  std::uint64_t bytes = 0;
  Rank root = rank_of(0);  ///< root, if the collective has one
  bool in_place = false;   ///< whether a rank's own block lies in its receive buffer (Allgather)

  friend bool operator==(const CollectiveSpec&, const CollectiveSpec&) = default;
};

/// The times for which a poll occupies a host's worker, the thread that polls the communicators.
/// After a poll that leaves no work, the worker sleeps until something arrives or a timer expires.
struct HostModel {
  Nanoseconds poll{500};     ///< time to poll one communicator
  Nanoseconds chunk{250};    ///< time to handle a received chunk
  Nanoseconds message{150};  ///< time to handle a message or completion
  Nanoseconds jitter{0};     ///< largest random extra time of a poll
  /// Completion moderation: a chunk that arrives wakes a sleeping worker only after this time.
  /// After a poll that handled only chunks, the worker sleeps again.
  Nanoseconds moderation{0};
};

struct CommunicatorSpec {
  std::vector<sim::HostId> hosts{};  ///< hosts of the ranks, indexed by rank
  std::uint32_t subgroups = 1;
  engine::Settings engine{};
  device::sim::NicSettings nic{};
  Nanoseconds peer_timeout{3'000'000'000};
  std::uint32_t max_connections = 0;  ///< EndpointOptions::max_connections; software only
  /// Number of consecutive ranks that hierarchical collectives treat as one host; 0: no hierarchy.
  std::uint32_t ranks_per_host = 0;
  /// In a side communicator of a hierarchy: for each member, its rank in the communicator that has
  /// the hierarchy. Empty in any other communicator.
  std::vector<Rank> members{};
  /// Sizes of UC messages; empty: UD multicast.
  std::optional<device::sim::FragmentShape> uc{};
  std::uint32_t receive_workers = 0;  ///< receive workers of each rank; at most one per subgroup
  /// Window of the aggregator, which is the last rank and serves the reductions that the other
  /// ranks call; empty: no aggregator.
  std::optional<engine::WindowConfig> aggregator{};
  device::fault::FaultPlan faults{};  ///< faults that are injected into the communicator
  /// Frame tap that is used instead of the frame tap of `faults`; null: no replacement.
  std::shared_ptr<device::FrameTap> tap{};
  std::vector<CollectiveSpec> collectives{};  ///< collectives that every rank runs, in order
  /// A rank may have at most this many collectives in flight, that is, submitted but not ended.
  std::uint32_t submitted_ahead = 1;
  Nanoseconds skew{0};     ///< largest difference between the start times of the ranks
  Nanoseconds compute{0};  ///< longest computation between two collectives of a rank
};

/// Whether the ranks close the communicator.
inline bool closes(const CommunicatorSpec& spec) {
  return !spec.collectives.empty() && spec.collectives.back().kind == CollectiveKind::close;
}

/// A pause of a host's worker. The host's NIC continues to work, except for connections that the
/// worker must serve.
struct Pause {
  sim::HostId host{};
  Instant from{};
  Nanoseconds length{};
};
/// The death of a host.
struct Death {
  sim::HostId host{};
  Instant at{};
};
/// A link that is down for a time.
struct Outage {
  sim::LinkId link{};
  Instant from{};
  Nanoseconds length{};
  bool one_way = false;  ///< whether the opposite direction of the cable stays up
};

/// One packet on one link; `identity` is the key of the packet in loss draws. The link has lost the
/// packet or, in `toggled_losses`, the loss draw of the packet is inverted.
struct FabricLoss {
  sim::LinkId link{};
  std::uint64_t identity = 0;

  friend bool operator==(const FabricLoss&, const FabricLoss&) = default;
};

struct WorldConfig {
  std::uint64_t seed = 1;
  /// Topology of the network; must outlive the simulation.
  const sim::Topology* topology = nullptr;
  sim::FabricSettings fabric{};
  HostModel host{};
  std::vector<CommunicatorSpec> communicators{};
  std::vector<Pause> pauses{};
  std::vector<Death> deaths{};
  std::vector<Outage> outages{};
  std::vector<device::sim::PathFault> path_faults{};
  std::vector<device::sim::Replay> replays{};
  std::vector<device::sim::GroupFault> group_faults{};
  /// Loss probability on the links of each class, until the instant `healed`.
  std::vector<std::pair<sim::LinkClass, double>> loss{};
  std::vector<FabricLoss> toggled_losses{};
  /// From this instant on (healing), links and frame taps lose nothing at random.
  Instant healed = kNever;
  std::uint64_t max_events = UINT64_MAX;
  Instant end = kNever;  ///< instant after which a run that is not over ends with an error
  /// Background traffic, which runs until all collectives have ended. With 0 streams there is none.
  sim::BackgroundSettings background{};
  /// Trace in which ranks, workers and ports are recorded, or null. It must outlive the simulation.
  observe::Trace* trace = nullptr;
};

}  // namespace tutti::simulation
