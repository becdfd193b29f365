// Runs a message plan over a fabric: what goes over which link, and when everybody has everything.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/event_queue.hpp"
#include "sim/fabric.hpp"
#include "sim/message_plan.hpp"
#include "sim/topology.hpp"
#include "tutti/status.hpp"

namespace tutti::sim {

struct TrafficSettings {
  std::uint32_t mtu_bytes = 4096;             ///< payload of a packet at most
  std::uint32_t unicast_header_bytes = 26;    ///< what a packet adds on the wire (LRH to ICRC)
  std::uint32_t multicast_header_bytes = 76;  ///< datagrams carry GRH and DETH too
  Picoseconds message_overhead{};  ///< from the last byte received to the next message posted
  bool trains = false;  ///< full packets of a message as one train: the same where no two meet
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
  /// Takes events until the queue is empty, other kinds but the fabric's and this one's ignored.
  /// Refused where messages did not arrive: lost packets, or a plan that waits for itself.
  Status run();

  /// When a rank had everything that was sent to it; 0 where nothing was.
  Picoseconds finish_time(std::uint32_t rank) const { return finish_[rank]; }
  Picoseconds finish_time() const;
  std::uint64_t undelivered() const { return undelivered_; }

  void arrived(const Arrival& arrival, HostId at, const Packet& packet) override;

 private:
  void index_dependents();
  void send(MessageIndex message, Picoseconds now);
  void complete(MessageIndex message, Picoseconds now);

  EventQueue& queue_;
  const MessagePlan& plan_;
  const std::vector<HostId> hosts_;
  const TrafficSettings settings_;
  Fabric* fabric_ = nullptr;
  GroupId group_{};
  std::vector<std::uint32_t> rank_of_host_;
  std::vector<std::uint32_t> missing_needs_;    ///< by message
  std::vector<std::uint32_t> missing_packets_;  ///< by message to one rank
  std::vector<std::uint32_t> first_dependents_;
  std::vector<MessageIndex> dependents_;
  std::vector<Picoseconds> finish_;
  std::uint64_t undelivered_ = 0;  ///< packets times receivers
};

}  // namespace tutti::sim
