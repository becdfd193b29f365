// Packets that pass through the fabric, how it is configured, and what it counts.
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
  std::uint64_t cookie = 0;  ///< chosen by the sender; equal in all packets of a train
  /// Key in draws of loss: equal keys have equal fates on a link. 0: derived from sender and count.
  /// Packet i of a train has identity + i.
  std::uint64_t identity = 0;
  HostId source{};                  ///< set by inject
  std::uint32_t target = 0;         ///< a HostId, or a GroupId if `multicast`
  std::uint32_t wire_bytes = 0;     ///< size of each packet on the wire, headers included
  std::uint32_t payload_bytes = 0;  ///< payload of each packet, for counters only
  /// Packets of one flow take one path under ECMP; a contribution: the GroupId of its tree.
  std::uint32_t flow = 0;
  std::uint16_t count = 1;  ///< packets in the train, 1 .. 32767
  bool multicast : 1 = false;
  /// A contribution to the packet that reaches `target`: see contribution().
  bool reduced : 1 = false;
  bool background : 1 = false;  ///< counted and queued like any packet, but hidden from the sink

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
  /// A contribution to an in-network reduction. On the group's tree each switch waits for the
  /// contributions of all members below it, seen from the destination, and sends one packet on; the
  /// destination, itself a member, receives one.
  ///
  /// Every other member sends one contribution. `reduction` is equal in all of them, unique to
  /// them, and becomes the cookie (packet i of a train belongs to reduction + i). The memory of the
  /// switches is unbounded, and a loss leaves a reduction open forever.
  static Packet contribution(GroupId tree, HostId destination, std::uint64_t reduction,
                             std::uint32_t wire, std::uint32_t payload) {
    Packet packet = to_host(destination, wire, payload);
    packet.reduced = true;
    packet.flow = index(tree);
    packet.cookie = reduction;
    return packet;
  }
};

/// Consecutive packets of a train, or a single packet, at one place.
struct Arrival {
  Picoseconds time{};       ///< arrival of the last bit of the first packet
  Picoseconds spacing{};    ///< time between successive packets
  std::uint32_t first = 0;  ///< index in the train
  std::uint32_t count = 1;

  Picoseconds time_of(std::uint32_t i) const { return time + spacing * i; }
  Picoseconds last() const { return time_of(count - 1); }
};

enum class DropReason : std::uint8_t {
  queue_full,  ///< lossy mode: tail drop
  bit_error,   ///< drawn from the link's bit-error or loss rate, or toggled
  link_down,   ///< the link, or every link towards the destination, is down
};

/// Receives arrivals and losses.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Called at arrival.time. Later packets of a train are still to come, at the times given.
  virtual void arrived(const Arrival& arrival, HostId at, const Packet& packet) = 0;
  /// The same arrival at several hosts of a leaf: `first` + i for every set bit i. A sink may
  /// override it with a faster form.
  virtual void arrived_on_leaf(const Arrival& arrival, HostId first, std::uint64_t hosts,
                               const Packet& packet);
  /// Packets `lost` were lost on `link`; other copies of a multicast packet may continue.
  virtual void dropped(const Arrival& lost, LinkId link, const Packet& packet, DropReason reason);
  /// The last bit of a packet whose inject returned kForever leaves its host at `when`.
  virtual void departed(Picoseconds when, HostId from, const Packet& packet);
};

/// Observes every transmission of every port, for traces.
class PortObserver {
 public:
  virtual ~PortObserver() = default;
  /// `count` packets leave on a link back to back, the first at `begin`, each taking `each`.
  virtual void sent(LinkId link, Picoseconds begin, Picoseconds each, std::uint32_t count,
                    const Packet& packet) = 0;
};

enum class Forwarding : std::uint8_t { store_and_forward, cut_through };
enum class FlowControl : std::uint8_t {
  /// Credits: a packet leaves only when the next switch has room, so nothing is dropped for lack of
  /// buffers. Free of deadlock on fat trees, and for unicast on dragonfly+. On other networks a
  /// deadlock shows as an empty event queue with packets in flight.
  lossless,
  lossy,  ///< a packet that does not fit the port's queue is dropped
};
enum class Routing : std::uint8_t {
  ecmp,         ///< by a hash of flow, source and destination: one path a flow
  adaptive,     ///< each packet by the port that is free first, so packets may overtake
  destination,  ///< by the destination's number: static tables
};

struct FabricSettings {
  std::uint64_t seed = 1;
  Forwarding forwarding = Forwarding::store_and_forward;
  FlowControl flow_control = FlowControl::lossless;
  Routing routing = Routing::ecmp;
  Picoseconds switch_latency = nanoseconds(200);
  std::uint64_t queue_bytes = 1u << 20;  ///< lossy: queue of a switch port, in bytes
  /// Lossless: input buffer of a switch per link, in bytes.
  std::uint64_t credit_bytes = 256u << 10;
  bool leaf_groups = true;  ///< one event for all hosts of a leaf whose ports have equal state
};

/// The tree of a group, by its top switch.
struct TreeChoice {
  static constexpr std::uint32_t kByGroup = 0xffff'ffffu;
  /// Index among the switches of the top level (Fabric::trees()); kByGroup: drawn from seed and
  /// group.
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

/// Cumulative counts of a fabric, in packets.
struct FabricCounters {
  std::uint64_t injected = 0;
  std::uint64_t hops = 0;       ///< transmissions: packets times links
  std::uint64_t delivered = 0;  ///< packets times receiving hosts, background included
  std::uint64_t dropped = 0;
  std::uint64_t in_flight = 0;  ///< copies on links or in switches now
  std::uint64_t blocked = 0;    ///< copies that waited for credits
  /// Packets that met a train still arriving; if 0, results equal those of single packets.
  std::uint64_t train_conflicts = 0;
  std::uint64_t leaf_events = 0;           ///< events that represent several hosts
  std::uint64_t absorbed = 0;              ///< contributions absorbed into a switch's sum
  std::uint64_t most_open_reductions = 0;  ///< largest number open at one time, over all switches
};

}  // namespace tutti::sim
