// The packets that pass through the fabric, the fabric's settings and its counters.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/time.hpp"
#include "sim/fabric/topology.hpp"
#include "tutti/status.hpp"

namespace tutti::sim {

/// A multicast group of one fabric.
enum class GroupId : std::uint32_t {};
constexpr std::uint32_t index(GroupId group) { return static_cast<std::uint32_t>(group); }

/// A packet, or a train of `count` equal packets sent back to back.
struct Packet {
  std::uint64_t cookie = 0;  ///< value chosen by the sender, equal in all packets of a train
  /// Key of the packet in the random draws that decide about losses. On one link, packets with
  /// equal keys are either all lost or all pass. Packet i of a train has the key identity + i. If
  /// `identity` is 0, inject() makes a key from the sending host and the number of packets that it
  /// has sent before.
  std::uint64_t identity = 0;
  HostId source{};                  ///< sending host, which inject() sets
  std::uint32_t target = 0;         ///< destination: a HostId, or a GroupId if `multicast` is set
  std::uint32_t wire_bytes = 0;     ///< size of each packet on the wire with its headers, in bytes
  std::uint32_t payload_bytes = 0;  ///< payload of each packet in bytes, for the counters only
  /// Identifier of the packet's flow: under ECMP, the packets of one flow between two hosts take
  /// one path. In a contribution it is the GroupId of the tree.
  std::uint32_t flow = 0;
  std::uint16_t count = 1;  ///< number of packets in the train, 1 to 32767
  bool multicast : 1 = false;
  /// Whether the packet is a contribution to an in-network reduction; see contribution().
  bool reduced : 1 = false;
  bool background : 1 = false;  ///< whether this is background traffic, which the sink does not see

  static Packet to_host(HostId destination, std::uint32_t wire, std::uint32_t payload) {
    Packet packet;
    packet.target = index(destination);
    packet.wire_bytes = wire;
    packet.payload_bytes = payload;
    return packet;
  }
  static Packet to_group(GroupId group, std::uint32_t wire, std::uint32_t payload) {
    Packet packet = to_host(HostId{index(group)}, wire, payload);
    packet.multicast = true;
    return packet;
  }
  /// Makes a contribution to an in-network reduction on the multicast tree of a group. Each switch
  /// of the tree adds up the contributions that reach it and forwards the sum as one packet. The
  /// destination, which is a member of the group too, receives one packet.
  ///
  /// Each member except the destination sends one contribution with the number `reduction`; no
  /// other reduction may use this number. Packet i of a train has the number reduction + i. The
  /// memory of the switches is unbounded. If a contribution is lost, its reduction remains
  /// incomplete.
  static Packet contribution(GroupId tree, HostId destination, std::uint64_t reduction,
                             std::uint32_t wire, std::uint32_t payload) {
    Packet packet = to_host(destination, wire, payload);
    packet.reduced = true;
    packet.flow = index(tree);
    packet.cookie = reduction;
    return packet;
  }
};

/// The times at which a packet, or consecutive packets of a train, arrive at one place.
struct Arrival {
  Picoseconds time{};       ///< instant at which the last bit of the first packet arrives
  Picoseconds spacing{};    ///< time between the arrivals of successive packets
  std::uint32_t first = 0;  ///< index in the train of the first packet that arrives
  std::uint32_t count = 1;

  Picoseconds time_of(std::uint32_t i) const { return time + spacing * i; }
  Picoseconds last() const { return time_of(count - 1); }
};

enum class DropReason : std::uint8_t {
  queue_full,  ///< in lossy mode: the port's queue was full (tail drop)
  bit_error,   ///< a random bit error or loss on the link, or an inverted loss draw
  link_down,   ///< the link, or every link towards the destination, is down
};

/// Receives the fabric's reports of arrivals, losses and departures.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Reports an arrival at `arrival.time`. The later packets of a train follow at intervals of
  /// `arrival.spacing`.
  virtual void arrived(const Arrival& arrival, HostId at, const Packet& packet) = 0;
  /// Reports one arrival at several hosts of a leaf: at host `first` + i for every set bit i of
  /// `hosts`. A sink may override this function to handle the hosts faster.
  virtual void arrived_on_leaf(const Arrival& arrival, HostId first, std::uint64_t hosts,
                               const Packet& packet);
  /// Reports the loss of the packets `lost` on `link`. Other copies of a multicast packet may
  /// continue.
  virtual void dropped(const Arrival& lost, LinkId link, const Packet& packet, DropReason reason);
  /// Reports that the last bit of a packet leaves its host at `when`, if inject() returned kForever
  /// for the packet.
  virtual void departed(Picoseconds when, HostId from, const Packet& packet);
};

/// Observes every transmission of every port, for traces.
class PortObserver {
 public:
  virtual ~PortObserver() = default;
  /// Reports that `count` packets leave on a link back to back. The first packet starts at `begin`,
  /// and every packet occupies the link for the time `each`.
  virtual void sent(LinkId link, Picoseconds begin, Picoseconds each, std::uint32_t count,
                    const Packet& packet) = 0;
};

enum class Forwarding : std::uint8_t { store_and_forward, cut_through };
enum class FlowControl : std::uint8_t {
  /// Link credits: a packet leaves only when the next switch has room, so no packet is dropped for
  /// lack of buffers. Deadlocks are impossible in fat trees, and in dragonfly+ if all packets are
  /// unicast. In other topologies a deadlock shows as an empty event queue while packets are in
  /// flight.
  lossless,
  lossy,  ///< packets that do not fit the port's queue are dropped
};
enum class Routing : std::uint8_t {
  ecmp,         ///< a hash of flow, source and destination selects the link of a whole flow
  adaptive,     ///< sends each packet to the port that is free first; may reorder packets
  destination,  ///< the index of the destination host selects the link, as with static routes
};

struct FabricSettings {
  std::uint64_t seed = 1;
  Forwarding forwarding = Forwarding::store_and_forward;
  FlowControl flow_control = FlowControl::lossless;
  Routing routing = Routing::ecmp;
  Picoseconds switch_latency = nanoseconds(200);
  /// Capacity of a switch port's queue in lossy mode, in bytes.
  std::uint64_t queue_bytes = 1u << 20;
  /// Size of a switch's input buffer for each link in lossless mode, in bytes.
  std::uint64_t credit_bytes = 256u << 10;
  /// Whether one event represents the arrivals at several hosts of a leaf if the ports of these
  /// hosts have equal state.
  bool leaf_groups = true;
};

/// Chooses the multicast tree of a group by the tree's root.
struct TreeChoice {
  static constexpr std::uint32_t kByGroup = 0xffff'ffffu;
  /// Index of the root among the switches of the top level, less than Fabric::trees(). kByGroup:
  /// the root is drawn from seed and group.
  std::uint32_t root = kByGroup;
};

struct TrafficCount {
  std::uint64_t packets = 0;
  std::uint64_t wire_bytes = 0;
  std::uint64_t payload_bytes = 0;

  TrafficCount& operator+=(const TrafficCount& other) {
    packets += other.packets;
    wire_bytes += other.wire_bytes;
    payload_bytes += other.payload_bytes;
    return *this;
  }
  TrafficCount& operator-=(const TrafficCount& other) {
    packets -= other.packets;
    wire_bytes -= other.wire_bytes;
    payload_bytes -= other.payload_bytes;
    return *this;
  }
  friend bool operator==(const TrafficCount&, const TrafficCount&) = default;
};

/// Cumulative counters of a fabric.
struct FabricCounters {
  std::uint64_t injected = 0;
  std::uint64_t hops = 0;       ///< number of transmissions: a packet counts once per link
  std::uint64_t delivered = 0;  ///< number of packets delivered, summed over the receiving hosts
  std::uint64_t dropped = 0;
  std::uint64_t in_flight = 0;  ///< number of packet copies that are on links or in switches now
  std::uint64_t blocked = 0;    ///< number of packet copies that had to wait for credits
  /// Number of packets that reached a port while a train was still arriving there. If this number
  /// is 0, the results are the same as without trains.
  std::uint64_t train_conflicts = 0;
  std::uint64_t leaf_events = 0;  ///< number of events that each represent several hosts' arrivals
  /// Number of contributions to in-network reductions that were added to a switch's sum but did not
  /// complete the sum.
  std::uint64_t absorbed = 0;
  /// Largest number of incomplete sums of in-network reductions that all switches together had at
  /// one time.
  std::uint64_t most_open_reductions = 0;
};

}  // namespace tutti::sim
