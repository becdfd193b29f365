// Messages between ranks, several a host, packet by packet on the simulated fabric.
//
// Ranks of one host share its port, where messages take turns of some packets each. Messages within
// a host pass only the interface, one after the other at the rate of a link.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::simulation {

struct NetworkMessage {
  std::uint32_t from = 0;  ///< rank
  std::uint32_t to = 0;
  std::uint64_t bytes = 0;
  std::uint32_t call = 0;  ///< this and the next three are free for the sender
  std::uint32_t slot = 0;
  std::uint32_t task = 0;
  std::uint64_t keys = 0;
};

/// Receives notifications of messages.
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  /// The last byte has reached the interface of `message.to`.
  virtual void delivered(const NetworkMessage& message, sim::Picoseconds at) = 0;
  /// The last byte has left the interface of `message.from`.
  virtual void left(const NetworkMessage& message, sim::Picoseconds at) = 0;
};

struct MessageNetworkSettings {
  std::uint32_t ranks_per_host = 1;
  std::uint32_t mtu_bytes = 4096;   ///< payload of a packet, in bytes
  std::uint32_t header_bytes = 26;  ///< header of each packet on the wire, in bytes
  std::uint32_t burst_packets = 4;  ///< packets that a message sends per turn
  std::uint32_t posted_ahead = 4;   ///< packets queued at a port's link
  sim::FabricSettings fabric{};
};

class MessageNetwork final : public sim::Sink {
 public:
  /// Rank r is on host r / ranks_per_host of `topology`. The network keeps all references.
  MessageNetwork(sim::EventQueue& queue, const sim::Topology& topology,
                 const MessageNetworkSettings& settings, MessageSink& sink);

  /// Gives a message to its sender's interface at `at`, which is now or later.
  void send(sim::Picoseconds at, const NetworkMessage& message);
  /// Handles an event; false if it is of another kind.
  bool handle(const sim::Event& event);

  std::uint32_t host_of(std::uint32_t rank) const { return rank / settings_.ranks_per_host; }
  std::uint64_t sent() const { return sent_; }
  /// Messages that have not been delivered.
  std::uint64_t under_way() const { return messages_.size() - free_.size(); }

  void arrived(const sim::Arrival& arrival, sim::HostId at, const sim::Packet& packet) override;
  void departed(sim::Picoseconds when, sim::HostId from, const sim::Packet& packet) override;

 private:
  struct Record {
    NetworkMessage message;
    std::uint64_t unsent_bytes = 0;
    std::uint64_t to_send = 0;  ///< packets still to send
    std::uint64_t to_arrive = 0;
    bool has_left = false;
  };

  struct Port {
    std::deque<std::uint32_t> open;  ///< messages being sent; the first has the turn
    std::uint32_t burst = 0;         ///< packets sent in this turn
    std::uint32_t posted = 0;        ///< packets that have not left
  };

  void take_up(std::uint32_t at);
  void pump(std::uint32_t host);
  bool send_packet(std::uint32_t at);
  void on_packet_left(std::uint32_t host, std::uint64_t cookie, sim::Picoseconds when);
  void pass_within_host(std::uint32_t at);
  void deliver(std::uint32_t at, sim::Picoseconds when);
  void leave(std::uint32_t at, sim::Picoseconds when);
  void release(std::uint32_t at);

  sim::EventQueue& queue_;
  MessageNetworkSettings settings_;
  MessageSink& sink_;
  sim::Fabric fabric_;
  sim::WireSpeed speed_;
  std::vector<Port> ports_;  ///< by host
  /// By host: when the next message within the host may begin.
  std::vector<sim::Picoseconds> within_free_;
  std::vector<Record> messages_;
  std::vector<std::uint32_t> free_;
  std::uint64_t sent_ = 0;
};

}  // namespace tutti::simulation
