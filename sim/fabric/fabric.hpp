// The fabric in virtual time: packets pass over links and through switches, one event a hop.
//
// A port is an instant until which it is busy, plus counters. When a packet arrives its departure
// is computed at once, and the next event is its arrival at the far end. The end of a transmission
// has no event and a queue has no object: its depth is the time that the port is still busy. Only a
// port without credits stores packets and wakes up for them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/fabric_types.hpp"
#include "sim/fabric/time.hpp"
#include "sim/fabric/topology.hpp"
#include "tutti/status.hpp"

namespace tutti::sim {

class FabricCore;

class Fabric {
 public:
  /// `queue`, `topology` and `sink` outlive the fabric.
  Fabric(EventQueue& queue, const Topology& topology, const FabricSettings& settings, Sink& sink);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  const Topology& topology() const;
  const FabricSettings& settings() const;

  /// Creates a group of hosts with its tree. Error: the list is empty, names a host twice or an
  /// unknown one, or no tree reaches all members.
  Result<GroupId> create_group(std::span<const HostId> members, TreeChoice choice = {});
  /// Number of trees that TreeChoice::root can name.
  std::uint32_t trees() const;

  /// Sends from a host's port after its earlier packets. Returns when the last bit leaves the host,
  /// or kForever if that depends on credits to come (see Sink::departed). `now` is the current time
  /// or later.
  Picoseconds inject(Picoseconds now, HostId from, const Packet& packet);
  /// When a host's port is free; kForever if it waits for credits.
  Picoseconds port_free(HostId host) const;

  /// Handles an event of one of the fabric's kinds (fabric_*).
  void handle(const Event& event);
  /// Sets the observer, which outlives the fabric; null for none.
  void observe_ports(PortObserver* observer);

  /// Counters of a link: `tx` when a packet starts on it, `rx` when it has arrived.
  TrafficCount tx(LinkId link) const;
  TrafficCount rx(LinkId link) const;
  /// Sum of tx over the links of a class.
  TrafficCount class_total(LinkClass link_class) const;
  /// Bytes in a port's queue at `now`, the packet in transmission included.
  std::uint64_t queue_depth_bytes(LinkId link, Picoseconds now) const;
  const FabricCounters& counters() const;
  /// Bytes of memory used by ports, credits, groups and packets.
  std::size_t memory_bytes() const;

  // ---- Faults ----

  /// Sets a loss probability per packet on each link of a class, in addition to bit errors.
  void set_loss(LinkClass link_class, double probability);
  /// Inverts one draw: a packet that would pass is lost, and the reverse.
  void toggle_loss(LinkId link, std::uint64_t identity);
  /// Takes a link down or up. A down link loses its packets; other shortest links are preferred.
  void set_link(LinkId link, bool up);
  /// Holds new packets of a port until `until`.
  void pause(LinkId link, Picoseconds until);

 private:
  std::unique_ptr<FabricCore> core_;
};

}  // namespace tutti::sim
