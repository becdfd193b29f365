// All NICs of a simulation. The queues of a host take turns at the host's port, one burst at a
// time, and each arriving packet goes to the endpoint that it addresses.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/device/endpoint.hpp"
#include "sim/device/group_faults.hpp"
#include "sim/device/nic_packet.hpp"
#include "sim/device/nic_port.hpp"
#include "sim/device/path_faults.hpp"
#include "sim/device/payload_store.hpp"
#include "sim/device/ring_queue.hpp"
#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::device::sim {

class SimNetwork final : public tutti::sim::Sink, private HostPorts {
 public:
  /// `queue`, `topology` and `waker` must outlive the network.
  SimNetwork(tutti::sim::EventQueue& queue, const tutti::sim::Topology& topology,
             const tutti::sim::FabricSettings& settings, HostWaker& waker);

  tutti::sim::Fabric& fabric() { return fabric_; }
  const tutti::sim::Fabric& fabric() const { return fabric_; }
  tutti::sim::Picoseconds now() const { return queue_->now(); }
  PayloadStore& payloads() { return payloads_; }

  /// Adds a communicator whose rank r is on `hosts[r]`, with one multicast group per subgroup and,
  /// if `slot_exchange` is set, one more group.
  /// Returns the number of the communicator.
  Result<std::uint32_t> add_communicator(std::span<const tutti::sim::HostId> hosts,
                                         std::uint32_t subgroups, bool slot_exchange = false);
  Result<std::unique_ptr<Endpoint>> open(std::uint32_t communicator, const EndpointOptions& options,
                                         const NicSettings& settings,
                                         std::shared_ptr<FrameTap> tap);

  /// Handles an event of the fabric or of a NIC; returns false for an event of any other kind.
  bool handle(const tutti::sim::Event& event);
  PathFaults& path_faults() { return path_faults_; }
  GroupFaults& group_faults() { return group_faults_; }
  /// Number of multicast packets that vanished because of group faults, counted once for each
  /// receiver.
  std::uint64_t group_losses() const { return group_losses_; }
  /// Number of packets of reliable connections that vanished because of path faults.
  std::uint64_t path_losses() const { return path_losses_; }
  /// Number of recorded packets that strangers sent again.
  std::uint64_t replayed() const { return replayed_; }
  /// Kills a host with all its endpoints.
  void kill(tutti::sim::HostId host);
  /// The endpoint that a communicator has on a host; null if there is none.
  SimEndpoint* endpoint_at(std::uint32_t communicator, tutti::sim::HostId host);

  // The fabric calls the functions below.
  void arrived(const tutti::sim::Arrival& arrival, tutti::sim::HostId at,
               const tutti::sim::Packet& packet) override;
  void arrived_on_leaf(const tutti::sim::Arrival& arrival, tutti::sim::HostId first,
                       std::uint64_t hosts, const tutti::sim::Packet& packet) override;
  void dropped(const tutti::sim::Arrival& lost, tutti::sim::LinkId link,
               const tutti::sim::Packet& packet, tutti::sim::DropReason reason) override;
  void departed(tutti::sim::Picoseconds when, tutti::sim::HostId from,
                const tutti::sim::Packet& packet) override;

  /// Sets an observer; every loss in the fabric calls the observer's dropped(). Null removes the
  /// observer.
  void observe_drops(tutti::sim::Sink* observer) { drop_observer_ = observer; }

 private:
  struct Turn {
    SimEndpoint* endpoint = nullptr;
    std::uint32_t queue = 0;
  };
  /// A host's port and the queues that take turns at it.
  struct Port {
    tutti::sim::Picoseconds busy_until{};
    std::uint32_t departures = 0;  ///< number of packets that wait at the port for credits
    bool scheduled = false;
    bool dead = false;
    RingQueue<Turn> turns;
  };
  struct Communicator {
    std::vector<tutti::sim::HostId> hosts;  ///< host of each rank, indexed by rank
    std::vector<std::uint32_t> rank_at;     ///< rank on each host; kNone on a host without a rank
    std::vector<SimEndpoint*> endpoint_at;  ///< endpoint on each host, indexed by host
    std::vector<tutti::sim::GroupId> groups;
  };
  struct GroupOwner {
    std::uint32_t communicator = 0;
    std::uint32_t subgroup = 0;
  };
  static constexpr std::uint32_t kNone = 0xffff'ffffu;

  // Endpoints call the functions below.
  void ready(std::uint32_t endpoint, std::uint32_t queue) override;
  tutti::sim::Picoseconds multicast(std::uint32_t endpoint, const wire::Header& header,
                                    const MulticastBurst& burst) override;
  void unicast(std::uint32_t endpoint, const NicPacket& packet) override;
  std::uint32_t host_of(std::uint32_t endpoint, Rank rank) const override;
  void closed(std::uint32_t endpoint) override;

  void pump(std::uint32_t host);
  void sent(Port& port, tutti::sim::Picoseconds end);
  tutti::sim::Picoseconds inject_group(std::uint32_t endpoint, const wire::Header& header,
                                       std::uint64_t cookie, std::uint32_t bytes,
                                       std::uint32_t count);
  void deliver_group(const tutti::sim::Arrival& arrival, tutti::sim::HostId at,
                     const tutti::sim::Packet& packet, const GroupOwner& owner);
  void deliver_reliable(const tutti::sim::Packet& packet);
  void hand_over(const NicPacket& packet);
  void record(const Replay& replay, const NicPacket& packet);
  void schedule_replay(std::uint32_t recording, Nanoseconds after);
  void send_again(std::uint32_t recording);

  /// A packet that a stranger, a sender outside the job, sends again. It holds one reference to the
  /// payload.
  struct Recording {
    Replay replay;
    NicPacket packet;
    std::uint64_t times = 0;
  };

  tutti::sim::EventQueue* queue_;
  HostWaker* waker_;
  tutti::sim::Fabric fabric_;
  PayloadStore payloads_;
  NicPacketPool packets_;
  std::vector<Port> ports_;
  std::vector<Communicator> communicators_;
  std::vector<GroupOwner> groups_;       ///< communicator and subgroup of each GroupId
  std::vector<SimEndpoint*> endpoints_;  ///< all endpoints, indexed by number
  tutti::sim::Sink* drop_observer_ = nullptr;
  PathFaults path_faults_;
  GroupFaults group_faults_;
  std::uint64_t group_losses_ = 0;
  std::vector<Recording> recordings_;
  std::uint64_t path_losses_ = 0;
  std::uint64_t replayed_ = 0;
};

}  // namespace tutti::device::sim
