// The fabric in virtual time: packets cross links and switches, with one event per hop.
//
// The state of a port is the instant until which it is busy, and its counters. When a packet
// arrives, its departure is computed at once, and the next event is its arrival at the far end of
// the link. The length of a port's queue follows from the time for which the port is still busy.
// Only a port that waits for credits stores packets.
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
  /// `queue`, `topology` and `sink` must outlive the fabric.
  Fabric(EventQueue& queue, const Topology& topology, const FabricSettings& settings, Sink& sink);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  const Topology& topology() const;
  const FabricSettings& settings() const;

  /// Creates a multicast group with its tree. Fails if `members` is empty, or contains an unknown
  /// host or the same host twice, or if no tree reaches all members.
  Result<GroupId> create_group(std::span<const HostId> members, TreeChoice choice = {});
  /// Number of switches that can be the root of a tree. TreeChoice::root numbers them from 0.
  std::uint32_t trees() const;

  /// Sends a packet from a host's port, after the port's earlier packets and not before `now`.
  /// Returns the instant at which the last bit leaves the host, or kForever if the packet must wait
  /// for credits; the sink's departed() then reports the instant.
  Picoseconds inject(Picoseconds now, HostId from, const Packet& packet);
  /// The instant at which a host's port is free; kForever if the port waits for credits.
  Picoseconds port_free(HostId host) const;

  /// Handles an event of a kind whose name begins with fabric_.
  void handle(const Event& event);
  /// Sets an observer of transmissions, which must outlive the fabric; null removes it.
  void observe_ports(PortObserver* observer);

  /// Traffic of a link: tx() counts a packet when it starts on the link, rx() when it has arrived.
  TrafficCount tx(LinkId link) const;
  TrafficCount rx(LinkId link) const;
  /// Number of packets, background traffic included, that started on a link and did not arrive.
  std::uint64_t lost(LinkId link) const;
  /// The sum of tx() over all links of a class.
  TrafficCount class_total(LinkClass link_class) const;
  /// Number of bytes in a port's queue at `now`, including the packet in transmission.
  std::uint64_t queue_depth_bytes(LinkId link, Picoseconds now) const;
  const FabricCounters& counters() const;
  /// Bytes of memory used by ports, credits, groups and packets.
  std::size_t memory_bytes() const;

  // ---- Faults ----

  /// Sets a loss probability per packet on each link of a class, in addition to bit errors.
  void set_loss(LinkClass link_class, double probability);
  /// Inverts the loss draw of one packet on one link: a packet that would pass is lost, and a
  /// packet that would be lost passes.
  void toggle_loss(LinkId link, std::uint64_t identity);
  /// Takes a link down or up. A link that is down loses its packets; routing avoids the link if
  /// other links lie on equally short paths.
  void set_link(LinkId link, bool up);
  /// Prevents a port from starting a further packet before `until`.
  void pause(LinkId link, Picoseconds until);

 private:
  std::unique_ptr<FabricCore> core_;
};

}  // namespace tutti::sim
