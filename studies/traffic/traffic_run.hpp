// Runs a message plan over a fabric: what goes over which link, and when everybody has everything.
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
  std::uint32_t mtu_bytes = 4096;             ///< payload of a packet at most
  std::uint32_t unicast_header_bytes = 26;    ///< what a packet adds on the wire (LRH to ICRC)
  std::uint32_t multicast_header_bytes = 76;  ///< datagrams carry GRH and DETH too
  Picoseconds message_overhead{};  ///< from the last byte received to the next message posted
  bool trains = false;  ///< full packets of a message as one train: the same where no two meet
  /// Packets or trains that a host's port is given ahead of time; 0: all that may go. From 2 on
  /// times are the same, and memory no longer grows with what is still to be sent.
  std::uint32_t posted_ahead = 0;
};

/// Which ports "all switch ports" counts: the rule stands beside every ratio.
enum class CountingRule : std::uint8_t {
  link,    ///< every directed link once, host links included
  rx_tx,   ///< received and transmitted at all switch ports
  tx,      ///< transmitted by switch ports: host to leaf is not seen
  rx,      ///< received by switch ports: leaf to host is not seen
  fabric,  ///< links between switches only
};
/// "LINK", "RXTX", "TX", "RX", "FAB".
const char* to_string(CountingRule rule);
/// What a fabric's links carried so far by a rule.
TrafficCount count_traffic(const Fabric& fabric, CountingRule rule);

/// One collective on one fabric. It is the fabric's sink; losses are not repaired here, they show
/// as an error.
class TrafficRun : public Sink {
 public:
  /// `hosts[rank]` is where a rank runs. Needs outlive the run.
  TrafficRun(EventQueue& queue, const MessagePlan& plan, std::vector<HostId> hosts,
             const TrafficSettings& settings);

  /// Makes the multicast group if the plan needs one, and starts at `start`.
  Status begin(Fabric& fabric, Picoseconds start, TreeChoice tree = {});
  /// Handles events of kind `traffic`.
  void handle(const Event& event);
  /// Takes events until the queue is empty, other kinds but the fabric's, this one's and those of
  /// `background` ignored; `background`, which may be null, is stopped when everything is there.
  /// Refused where messages did not arrive: lost packets, or a plan that waits for itself.
  Status run(BackgroundTraffic* background = nullptr);

  /// After `run`: when a rank had everything that was sent to it; 0 where nothing was.
  Picoseconds finish_time(std::uint32_t rank) const { return finish_[rank]; }
  Picoseconds finish_time() const;
  std::uint64_t undelivered() const { return undelivered_; }

  void arrived(const Arrival& arrival, HostId at, const Packet& packet) override;
  void arrived_on_leaf(const Arrival& arrival, HostId first, std::uint64_t hosts,
                       const Packet& packet) override;
  void departed(Picoseconds when, HostId from, const Packet& packet) override;

 private:
  /// What a rank has to send, in this order.
  struct Port {
    std::vector<MessageIndex> waiting;
    std::size_t next = 0;          ///< in `waiting`
    std::uint64_t sent_bytes = 0;  ///< of the message at `next`
    std::uint32_t sent_packets = 0;
    std::uint32_t posted = 0;  ///< that have not left
  };

  /// What hosts next to each other got together, all of them at the same times.
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
  std::vector<Picoseconds> finish_;  ///< but for what is in together_
  std::vector<Together> together_;   ///< by their first host
  std::uint64_t undelivered_ = 0;    ///< packets times receivers
};

}  // namespace tutti::sim
