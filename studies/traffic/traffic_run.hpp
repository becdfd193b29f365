// Runs a message plan over a fabric and measures the traffic of each link and the time at which
// each rank has received everything.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/fabric/background.hpp"
#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/fabric/topology.hpp"
#include "studies/traffic/message_plan.hpp"
#include "tutti/status.hpp"

namespace tutti::sim {

struct TrafficSettings {
  std::uint32_t mtu_bytes = 4096;  ///< largest payload of a packet, in bytes
  /// Bytes of the headers of a unicast packet on the wire: LRH (8), BTH (12), ICRC (4), VCRC (2).
  std::uint32_t unicast_header_bytes = 26;
  /// Bytes of the headers of a multicast packet: LRH (8), GRH (40), BTH (12), DETH (8), immediate
  /// (4) and ICRC (4).
  std::uint32_t multicast_header_bytes = 76;
  /// Time from the last byte of a received message until the receiver posts its next message.
  Picoseconds message_overhead{};
  /// Whether the full packets of a message are simulated as one train, which is sent back to back.
  /// The times are exact if no packet reaches a port at which a train is still arriving.
  bool trains = false;
  /// At most this many packets or trains may wait posted at a host's port; 0: no limit. The limit
  /// bounds the memory of a run. A limit of 2 or more does not change the simulated times.
  std::uint32_t posted_ahead = 0;
};

/// The rule by which traffic is counted; ratios of traffic depend on it.
enum class CountingRule : std::uint8_t {
  link,    ///< counts packets on every directed link, including host links
  rx_tx,   ///< counts packets received and packets transmitted at all switch ports
  tx,      ///< counts packets transmitted by switch ports: links from hosts do not count
  rx,      ///< counts packets received by switch ports: links to hosts do not count
  fabric,  ///< counts packets on links between switches
};
/// The rule's name: "LINK", "RXTX", "TX", "RX" or "FAB".
const char* to_string(CountingRule rule);
/// The traffic on all links of a fabric so far, counted by a rule.
TrafficCount count_traffic(const Fabric& fabric, CountingRule rule);

/// Runs one collective on one fabric and receives the fabric's reports. Lost packets are not sent
/// again; they make the run fail.
class TrafficRun : public Sink {
 public:
  /// `hosts[rank]` is the host of a rank. `queue` and `plan` must outlive the run.
  TrafficRun(EventQueue& queue, const MessagePlan& plan, std::vector<HostId> hosts,
             const TrafficSettings& settings);

  /// Creates the multicast group if the plan needs one, and starts the collective at `start`.
  Status begin(Fabric& fabric, Picoseconds start, TreeChoice tree = {});
  /// Handles an event of kind `traffic`.
  void handle(const Event& event);
  /// Handles events of the fabric, of this class and of `background` until the queue is empty.
  /// `background` may be null; it is stopped once all messages have arrived. Error: messages did
  /// not arrive, because packets were lost or the plan has a cycle.
  Status run(BackgroundTraffic* background = nullptr);

  /// The instant at which a rank had received everything, valid after `run`; 0 if the rank receives
  /// nothing.
  Picoseconds finish_time(std::uint32_t rank) const { return finish_[rank]; }
  Picoseconds finish_time() const;

  void arrived(const Arrival& arrival, HostId at, const Packet& packet) override;
  void arrived_on_leaf(const Arrival& arrival, HostId first, std::uint64_t hosts,
                       const Packet& packet) override;
  void departed(Picoseconds when, HostId from, const Packet& packet) override;

 private:
  /// The messages that a rank sends, in sending order.
  struct Port {
    std::vector<MessageIndex> waiting;
    std::size_t next = 0;          ///< index in `waiting` of the message being sent
    std::uint64_t sent_bytes = 0;  ///< bytes of the message at `next` that have been sent
    std::uint32_t sent_packets = 0;
    std::uint32_t posted = 0;  ///< number of posted packets or trains that have not left the host
  };

  /// One entry for several hosts of a leaf switch at which the same packets of a multicast arrive
  /// at the same time.
  struct Together {
    std::uint64_t hosts = 0;
    Picoseconds last{};
  };

  void index_dependents();
  void part(std::uint32_t first_host);
  Status check_plan(const Fabric& fabric) const;
  Status join_group(Fabric& fabric, TreeChoice tree);
  void send(MessageIndex message, Picoseconds now);
  void pump(std::uint32_t rank, Picoseconds now);
  Packet next_packet(Port& port, bool& last) const;
  void complete(MessageIndex message, Picoseconds now);

  EventQueue& queue_;
  const MessagePlan& plan_;
  const std::vector<HostId> hosts_;
  const TrafficSettings settings_;
  Fabric* fabric_ = nullptr;
  GroupId group_{};
  std::vector<std::uint32_t> rank_of_host_;
  std::vector<Port> ports_;  ///< ports, indexed by rank
  /// For each message, how many messages its sender must still receive before it sends this
  /// message.
  std::vector<std::uint32_t> missing_needs_;
  /// Number of packets of each message that have still to arrive, indexed by message; used only for
  /// messages to one rank.
  std::vector<std::uint32_t> missing_packets_;
  std::vector<std::uint32_t> first_dependents_;
  std::vector<MessageIndex> dependents_;
  /// Time of the last arrival at each rank, indexed by rank. part() adds the arrivals that
  /// `together_` records, at the latest at the end of the run.
  std::vector<Picoseconds> finish_;
  std::vector<Together> together_;  ///< shared arrivals, indexed by the first host that shares them
  /// Number of packets not yet delivered. A multicast packet counts once for each rank that
  /// receives it.
  std::uint64_t undelivered_ = 0;
};

}  // namespace tutti::sim
