// Runs a message plan over a fabric: the traffic of each link, and the time at which each rank has
// received everything.
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
  std::uint32_t mtu_bytes = 4096;             ///< largest payload of a packet, in bytes
  std::uint32_t unicast_header_bytes = 26;    ///< header of a packet on the wire (LRH to ICRC)
  std::uint32_t multicast_header_bytes = 76;  ///< header of a datagram, with GRH and DETH
  Picoseconds message_overhead{};  ///< from the last byte received to the next message posted
  /// Sends full packets of a message as one train, which is exact if no two trains meet.
  bool trains = false;
  /// Packets or trains given to a host's port ahead of time; 0: all. From 2 on the times are equal,
  /// and memory no longer grows with the data still to be sent.
  std::uint32_t posted_ahead = 0;
};

/// The ports that "all switch ports" counts; every ratio names its rule.
enum class CountingRule : std::uint8_t {
  link,    ///< every directed link once, host links included
  rx_tx,   ///< received and transmitted at all switch ports
  tx,      ///< transmitted by switch ports: traffic from host to leaf is not counted
  rx,      ///< received by switch ports: traffic from leaf to host is not counted
  fabric,  ///< links between switches only
};
/// "LINK", "RXTX", "TX", "RX", "FAB".
const char* to_string(CountingRule rule);
/// The traffic of a fabric's links so far, by a rule.
TrafficCount count_traffic(const Fabric& fabric, CountingRule rule);

/// One collective on one fabric, whose sink it is. Losses are not repaired; they are reported as an
/// error.
class TrafficRun : public Sink {
 public:
  /// `hosts[rank]` is the host of a rank. The referenced objects must outlive the run.
  TrafficRun(EventQueue& queue, const MessagePlan& plan, std::vector<HostId> hosts,
             const TrafficSettings& settings);

  /// Creates the multicast group if the plan needs one, and starts at `start`.
  Status begin(Fabric& fabric, Picoseconds start, TreeChoice tree = {});
  /// Handles events of kind `traffic`.
  void handle(const Event& event);
  /// Handles events until the queue is empty, ignoring kinds other than those of the fabric, this
  /// class and `background`. `background`, which may be null, is stopped once all messages have
  /// arrived. Error: messages did not arrive, through lost packets or a plan with a cycle.
  Status run(BackgroundTraffic* background = nullptr);

  /// After `run`: when a rank had received everything; 0 if it receives nothing.
  Picoseconds finish_time(std::uint32_t rank) const { return finish_[rank]; }
  Picoseconds finish_time() const;

  void arrived(const Arrival& arrival, HostId at, const Packet& packet) override;
  void arrived_on_leaf(const Arrival& arrival, HostId first, std::uint64_t hosts,
                       const Packet& packet) override;
  void departed(Picoseconds when, HostId from, const Packet& packet) override;

 private:
  /// The messages that a rank sends, in order.
  struct Port {
    std::vector<MessageIndex> waiting;
    std::size_t next = 0;          ///< index in `waiting`
    std::uint64_t sent_bytes = 0;  ///< bytes sent of the message at `next`
    std::uint32_t sent_packets = 0;
    std::uint32_t posted = 0;  ///< packets that have not left
  };

  /// Arrivals that are equal, also in time, at neighbouring hosts.
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
  std::vector<Port> ports_;                     ///< by rank
  std::vector<std::uint32_t> missing_needs_;    ///< by message
  std::vector<std::uint32_t> missing_packets_;  ///< by message to one rank
  std::vector<std::uint32_t> first_dependents_;
  std::vector<MessageIndex> dependents_;
  std::vector<Picoseconds> finish_;  ///< without the arrivals in together_
  std::vector<Together> together_;   ///< by first host
  std::uint64_t undelivered_ = 0;    ///< packets times receivers that are outstanding
};

}  // namespace tutti::sim
