// The implementation of Fabric: forwards packets from port to port. It owns the states of ports,
// links, multicast trees and link credits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/random.hpp"
#include "sim/fabric/core/link_credits.hpp"
#include "sim/fabric/core/link_faults.hpp"
#include "sim/fabric/core/link_timing.hpp"
#include "sim/fabric/core/multicast_trees.hpp"
#include "sim/fabric/core/port_table.hpp"
#include "sim/fabric/core/slab.hpp"
#include "sim/fabric/core/train_part.hpp"
#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/fabric_types.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::sim {

class FabricCore {
 public:
  FabricCore(EventQueue& queue, const Topology& topology, const FabricSettings& settings,
             Sink& sink);

  Picoseconds inject(Picoseconds now, HostId from, const Packet& packet);
  /// The instant at which a host's port is free; kForever if the port waits for credits.
  Picoseconds port_free(HostId host);
  void handle(const Event& event);
  void observe_ports(PortObserver* observer) { observer_ = observer; }

  const Topology& topology() const { return topology_; }
  const FabricSettings& settings() const { return settings_; }
  const FabricCounters& counters() const { return counters_; }
  PortTable& ports() { return ports_; }
  LinkFaults& faults() { return faults_; }
  MulticastTrees& trees() { return trees_; }
  std::size_t memory_bytes() const;

 private:
  /// A packet in flight, or a train of packets. All copies of a multicast share it.
  struct Flight {
    Packet packet;
    std::uint32_t references = 0;
  };
  /// The incomplete sum of an in-network reduction at one switch.
  struct OpenSum {
    std::uint32_t missing = 0;  ///< number of contributions that are still missing
    Picoseconds ready{};
    Picoseconds tail{};
  };
  struct SumName {
    std::uint64_t cookie = 0;
    std::uint64_t place = 0;  ///< the switch and the destination host, packed into one number

    friend bool operator==(const SumName&, const SumName&) = default;
  };
  struct SumNameHash {
    std::size_t operator()(const SumName& name) const { return mix(name.cookie ^ mix(name.place)); }
  };
  /// The packets that one `fabric_leaf_arrival` event delivers, and their receivers: the `hosts` of
  /// the leaf slice `slice`.
  struct LeafRun {
    TrainPart part;
    std::uint32_t slice = 0;
    std::uint64_t hosts = 0;
  };

  // Forwarding (fabric_core_forward.cpp).
  void arrive(const Event& event);
  void deliver(const Event& event, const TrainPart& part, LinkId link);
  void forward(SwitchId at, Incoming& in, const TrainPart& part);
  void forward_multicast(SwitchId at, Incoming& in, const TrainPart& part);
  LinkId choose(const NextLinks& next, SwitchId at, const Packet& packet, std::uint32_t first,
                Picoseconds ready);
  bool goes_as_one(SwitchId at, const Incoming& in, const TrainPart& part);
  bool fits_as_one(LinkId link, const Incoming& in, const TrainPart& part);
  void send(LinkId link, Incoming& in, const TrainPart& part);
  void wait_for_credit(LinkId link, Incoming& in, const TrainPart& part);
  void wake(LinkId link);
  void start(LinkId link, Picoseconds start, const TrainPart& part);
  void send_with_loss(LinkId link, Picoseconds start, const TrainPart& part);
  void push_arrival(LinkId link, Picoseconds start, const TrainPart& part);
  void drop(LinkId link, Picoseconds when, const TrainPart& part, DropReason reason);
  void unreference(std::uint32_t flight, std::uint32_t references = 1);

  // Leaves (fabric_core_leaf.cpp).
  void send_to_leaf(std::uint32_t at, std::uint64_t hosts, Incoming& in, const TrainPart& part);
  void send_in_common(std::uint32_t at, Incoming& in, const TrainPart& part);
  void arrive_at_leaf(const Event& event);

  // Reductions (fabric_core_reduce.cpp).
  void forward_contribution(SwitchId at, Incoming& in, const TrainPart& part);

  EventQueue& queue_;
  const Topology& topology_;
  const FabricSettings settings_;
  Sink& sink_;
  const std::uint64_t hash_seed_;
  const LinkTiming timing_;
  LinkFaults faults_;
  LinkCredits credits_;
  PortTable ports_;
  MulticastTrees trees_;
  Slab<Flight> flights_;
  Slab<LeafRun> leaf_runs_;
  std::vector<std::uint64_t> sent_by_host_;
  std::unordered_map<SumName, OpenSum, SumNameHash> reductions_;
  FabricCounters counters_;
  PortObserver* observer_ = nullptr;
};

}  // namespace tutti::sim
