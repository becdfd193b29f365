// Messages between ranks on the simulated fabric, packet by packet, with several ranks per host.
//
// Ranks of one host share its port, at which messages take turns of a few packets each. Messages
// within a host pass only the interface, one after the other at the rate of a link.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::simulation {

struct NetworkMessage {
  std::uint32_t from = 0;  ///< sending rank
  std::uint32_t to = 0;
  std::uint64_t bytes = 0;
  /// The fields `call`, `slot`, `task` and `keys` are for the sender; the network ignores them.
  std::uint32_t call = 0;
  std::uint32_t slot = 0;
  std::uint32_t task = 0;
  std::uint64_t keys = 0;
};

/// The caller implements this class to learn when a message leaves and arrives.
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  /// The last byte of `message` has reached the interface of its receiver.
  virtual void delivered(const NetworkMessage& message, sim::Picoseconds at) = 0;
  /// The last byte of `message` has left the interface of its sender.
  virtual void left(const NetworkMessage& message, sim::Picoseconds at) = 0;
};

struct MessageNetworkSettings {
  std::uint32_t ranks_per_host = 1;
  std::uint32_t mtu_bytes = 4096;   ///< largest payload of a packet, in bytes
  std::uint32_t header_bytes = 26;  ///< header of each packet on the wire, in bytes
  std::uint32_t burst_packets = 4;  ///< number of packets that a message sends per turn
  std::uint32_t posted_ahead = 4;   ///< at most this many posted packets may wait in a host
  sim::FabricSettings fabric{};
};

class MessageNetwork final : public sim::Sink {
 public:
  /// Connects the ranks; rank r is on host r / ranks_per_host of `topology`. `queue`, `topology`
  /// and `sink` must outlive the network.
  MessageNetwork(sim::EventQueue& queue, const sim::Topology& topology,
                 const MessageNetworkSettings& settings, MessageSink& sink);

  /// Hands a message to its sender's interface at the instant `at`, which is now or later.
  void send(sim::Picoseconds at, const NetworkMessage& message);
  /// Handles an event; returns false if the event is of another kind.
  bool handle(const sim::Event& event);

  std::uint32_t host_of(std::uint32_t rank) const { return rank / settings_.ranks_per_host; }
  std::uint64_t sent() const { return sent_; }
  /// Number of messages that have not been delivered.
  std::uint64_t under_way() const { return messages_.size() - free_.size(); }

  void arrived(const sim::Arrival& arrival, sim::HostId at, const sim::Packet& packet) override;
  void departed(sim::Picoseconds when, sim::HostId from, const sim::Packet& packet) override;

 private:
  struct Record {
    NetworkMessage message;
    std::uint64_t unsent_bytes = 0;
    std::uint64_t to_send = 0;  ///< number of packets that have still to be sent
    std::uint64_t to_arrive = 0;
    bool has_left = false;
  };

  struct Port {
    /// Messages being sent; the next packet belongs to the message at the front.
    std::deque<std::uint32_t> open;
    std::uint32_t burst = 0;   ///< number of packets sent in the current turn
    std::uint32_t posted = 0;  ///< number of posted packets that have not left the host
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
  std::vector<Port> ports_;  ///< ports, indexed by host
  /// Instant at which the next message within a host may begin, indexed by host.
  std::vector<sim::Picoseconds> within_free_;
  std::vector<Record> messages_;
  std::vector<std::uint32_t> free_;
  std::uint64_t sent_ = 0;
};

}  // namespace tutti::simulation
