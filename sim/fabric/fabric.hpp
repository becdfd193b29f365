// The fabric in virtual time: packets hop over links and through switches, one event a hop.
//
// A port is the instant until which it is busy, and counters: when a packet comes, its departure is
// computed at once, and the next event is its arrival at the far end. There is no event for the end
// of a transmission and no object for a queue; a queue's depth is the time that the port is still
// busy. Only a port that lacks credits keeps packets and wakes up for them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
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
  std::uint64_t cookie = 0;    ///< the sender's own; the same in all packets of a train
  std::uint64_t identity = 0;  ///< names the packet in draws of loss: the same name fares alike on
                               ///< a link. 0: sender and count. The i-th of a train: identity + i
  HostId source{};             ///< set by inject
  std::uint32_t target = 0;    ///< a HostId, or a GroupId if `multicast`
  std::uint32_t wire_bytes = 0;     ///< of each packet, headers and all: what takes time
  std::uint32_t payload_bytes = 0;  ///< of each packet: only counted
  std::uint32_t flow = 0;           ///< packets of one flow take one path under ECMP; of a
                                    ///< contribution: the GroupId whose tree it goes by
  std::uint16_t count = 1;          ///< packets in the train, 1 .. 32767
  bool multicast : 1 = false;
  bool reduced : 1 = false;     ///< a contribution to what arrives at `target`: see contribution()
  bool background : 1 = false;  ///< counted and queued like any, but the sink never sees it

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
  /// A contribution to a reduction in the network (INC, row K14): on the group's tree each switch
  /// waits for those of all members below it, as seen from the destination, and sends one packet
  /// on, so that the destination gets one. Every member but the destination, itself a member,
  /// sends one; `reduction` is the same in all of them and in no others, and becomes the cookie (of
  /// a train, the i-th packet is part of reduction + i).
  /// The switches' memory for open reductions is not bounded; what came in is out of the way at
  /// once. A loss leaves a reduction open for ever.
  static Packet contribution(GroupId tree, HostId destination, std::uint64_t reduction,
                             std::uint32_t wire, std::uint32_t payload) {
    Packet packet = to_host(destination, wire, payload);
    packet.reduced = true;
    packet.flow = index(tree);
    packet.cookie = reduction;
    return packet;
  }
};

/// Consecutive packets of a train (or the one packet) at one place.
struct Arrival {
  Picoseconds time{};       ///< the last bit of the first of them
  Picoseconds spacing{};    ///< from one to the next
  std::uint32_t first = 0;  ///< index in the train
  std::uint32_t count = 1;

  Picoseconds time_of(std::uint32_t i) const { return time + spacing * i; }
  Picoseconds last() const { return time_of(count - 1); }
};

enum class DropReason : std::uint8_t {
  queue_full,  ///< lossy mode: tail drop
  bit_error,   ///< drawn from the link's bit-error rate or loss rate, or toggled
  link_down,   ///< the link, or every link towards the destination, is down
};

/// Who hears of arrivals and losses.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Called at arrival.time; of a train the later packets are still to come, at the times given.
  virtual void arrived(const Arrival& arrival, HostId at, const Packet& packet) = 0;
  /// The same arrival at several hosts of a leaf: `first` + i for every set bit i. Sinks that know
  /// a shorter way override it.
  virtual void arrived_on_leaf(const Arrival& arrival, HostId first, std::uint64_t hosts,
                               const Packet& packet);
  /// Packets `lost` were lost on `link`; of a multicast packet other copies may go on.
  virtual void dropped(const Arrival& lost, LinkId link, const Packet& packet, DropReason reason);
  /// A packet whose inject returned kForever leaves its host: the last bit at `when`.
  virtual void departed(Picoseconds when, HostId from, const Packet& packet);
};

/// Who sees every port at work, for traces.
class PortObserver {
 public:
  virtual ~PortObserver() = default;
  /// `count` packets go out on a link behind one another, the first from `begin` on, `each` long.
  virtual void sent(LinkId link, Picoseconds begin, Picoseconds each, std::uint32_t count,
                    const Packet& packet) = 0;
};

enum class Forwarding : std::uint8_t { store_and_forward, cut_through };
enum class FlowControl : std::uint8_t {
  /// Credits: a packet leaves only when the next switch has room for it. Nothing is dropped for
  /// lack of room. Free of deadlock on fat trees, and for unicast on dragonfly+; on other networks
  /// a deadlock shows as an empty queue with packets in flight.
  lossless,
  lossy,  ///< a packet that does not fit the port's queue is dropped
};
enum class Routing : std::uint8_t {
  ecmp,         ///< by a hash of flow, source and destination: one path a flow
  adaptive,     ///< each packet by the port that is free first: packets overtake
  destination,  ///< by the destination's number: static tables
};

struct FabricSettings {
  std::uint64_t seed = 1;
  Forwarding forwarding = Forwarding::store_and_forward;
  FlowControl flow_control = FlowControl::lossless;
  Routing routing = Routing::ecmp;
  Picoseconds switch_latency = nanoseconds(200);
  std::uint64_t queue_bytes = 1u << 20;     ///< lossy: a switch port's queue
  std::uint64_t credit_bytes = 256u << 10;  ///< lossless: a switch's input buffer per link
  bool leaf_groups = true;  ///< one event for all hosts of a leaf where their ports agree exactly
};

/// Which tree a group uses: the switch it hangs from.
struct TreeChoice {
  static constexpr std::uint32_t kByGroup = 0xffff'ffffu;
  /// Counts the switches of the top level (Fabric::trees()); kByGroup: drawn from seed and group.
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
  friend bool operator==(const TrafficCount&, const TrafficCount&) = default;
};

/// Cumulative counts of a fabric, packets each.
struct FabricCounters {
  std::uint64_t injected = 0;
  std::uint64_t hops = 0;       ///< packets times links that they started on
  std::uint64_t delivered = 0;  ///< packets times hosts, background included
  std::uint64_t dropped = 0;
  std::uint64_t in_flight = 0;        ///< copies on links or in switches now
  std::uint64_t blocked = 0;          ///< copies that had to wait for credits
  std::uint64_t train_conflicts = 0;  ///< packets that met a train still coming in: only if 0 are
                                      ///< results equal to per-packet ones
  std::uint64_t leaf_events = 0;      ///< events that stood for several hosts
  std::uint64_t absorbed = 0;         ///< contributions that ended in a switch's sum
  std::uint64_t most_open_reductions = 0;  ///< at one time, over all switches
};

class Fabric {
 public:
  /// `queue`, `topology` and `sink` outlive the fabric.
  Fabric(EventQueue& queue, const Topology& topology, const FabricSettings& settings, Sink& sink);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  const Topology& topology() const;
  const FabricSettings& settings() const;

  /// A group of hosts and its tree. Refused where the members' list is empty or names a host twice
  /// or one that does not exist, or where no tree reaches all.
  Result<GroupId> create_group(std::span<const HostId> members, TreeChoice choice = {});
  /// How many trees TreeChoice::root can name.
  std::uint32_t trees() const;

  /// Sends from a host's port, behind what it already sends. Returns when the last bit leaves the
  /// host; kForever where that hangs on credits still to come (Sink::departed tells).
  /// `now` is the current time or later.
  Picoseconds inject(Picoseconds now, HostId from, const Packet& packet);
  /// When a host's port is free; kForever where it waits for credits.
  Picoseconds port_free(HostId host) const;

  /// Handles an event of one of the fabric's kinds (fabric_*).
  void handle(const Event& event);
  /// `observer` outlives the fabric; null: none.
  void observe_ports(PortObserver* observer);

  /// Counters of a link: `tx` when a packet starts on it, `rx` when it has come in.
  TrafficCount tx(LinkId link) const;
  TrafficCount rx(LinkId link) const;
  /// Sum of tx over the links of a class.
  TrafficCount class_total(LinkClass link_class) const;
  /// Bytes in a port's queue at `now`, transmission under way included.
  std::uint64_t queue_depth_bytes(LinkId link, Picoseconds now) const;
  const FabricCounters& counters() const;
  /// Bytes of memory that ports, credits, groups and packets take.
  std::size_t memory_bytes() const;

  // ---- Faults ----

  /// A probability of loss for each packet on each link of a class, beside bit errors.
  void set_loss(LinkClass link_class, double probability);
  /// Turns one draw around: a packet that would pass is lost, one that would be lost passes.
  void toggle_loss(LinkId link, std::uint64_t identity);
  /// A link that is down loses what is sent on it; other links of equal length are taken instead.
  void set_link(LinkId link, bool up);
  /// A port sends nothing new before `until`.
  void pause(LinkId link, Picoseconds until);

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tutti::sim
