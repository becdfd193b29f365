// The endpoint of one rank in one communicator, on the NIC of a simulated host.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/frame_tap.hpp"
#include "device/slots/datagram_slot_exchange.hpp"
#include "sim/device/connections.hpp"
#include "sim/device/multicast_queue.hpp"
#include "sim/device/nic_connection.hpp"
#include "sim/device/nic_port.hpp"
#include "sim/device/payload_store.hpp"

namespace tutti::device::sim {

class SimEndpoint final : public Endpoint {
 public:
  /// `communicator` is the communicator's number in the network. `payloads` must outlive the
  /// endpoint.
  SimEndpoint(const NicPort& port, PayloadStore& payloads, const EndpointOptions& options,
              const NicSettings& settings, std::uint32_t communicator,
              std::shared_ptr<FrameTap> tap);
  ~SimEndpoint() override;

  const Capabilities& capabilities() const override { return capabilities_; }
  std::vector<std::byte> address() const override;
  /// Checks that all peers have the same chunk size and number of staging chunks as this endpoint.
  /// A simulation whose NICs all have the same settings need not call connect().
  Status connect(std::span<const std::vector<std::byte>> addresses) override;
  Status use_secret(std::span<const std::byte> secret) override {
    return connections_->use_secret(secret);
  }
  std::uint32_t subgroup_count() const override {
    return static_cast<std::uint32_t>(groups_.size() - (slot_exchange_ ? 1 : 0));
  }
  Status rejoin_groups(Instant now) override {
    nic_.joined = now;
    return {};
  }
  SlotExchange* slot_exchange() override { return slot_exchange_.get(); }
  MulticastQueuePair& multicast(std::uint32_t subgroup) override { return *groups_[subgroup]; }
  Status use_receive_workers(bool on) override {
    workers_receive_ = on;
    return {};
  }
  Result<MemoryKey> register_memory(std::span<std::byte> memory) override {
    return connections_->register_memory(memory);
  }
  void deregister_memory(MemoryKey key) override { connections_->deregister_memory(key); }
  void use_matcher(MessageMatcher* matcher) override { connections_->use_matcher(matcher); }
  std::size_t max_message_bytes() const override { return connections_->max_message_bytes(); }
  Status post(Instant now, const WorkRequest& request) override;
  std::size_t poll(Instant now, std::span<Completion> completions) override {
    return connections_->poll(now, completions);
  }
  std::size_t poll_posted(Instant now, std::span<Completion> completions) override {
    return connections_->poll_posted(now, completions);
  }
  void watch(Rank peer, bool on) override { connections_->watch(peer, on); }
  void release_peer(Rank peer) override { connections_->release_peer(peer); }
  void test_path(Rank peer) override { connections_->test_path(peer); }
  void abandon() override { connections_->abandon(); }
  bool quiet() const override { return connections_->quiet(); }
  Instant next_deadline() const override { return connections_->next_deadline(); }
  int wait_descriptor() const override { return -1; }
  void notify_when_sendable(bool) override {}
  EndpointCounters counters() const override {
    EndpointCounters sum = nic_.counters;
    connections_->add_to(sum);
    return sum;
  }

  // State that all connections of the endpoint share; the network and the simulation use it too.
  NicShared& nic() { return nic_; }
  std::uint32_t host() const { return port_.host(); }
  std::uint32_t communicator() const { return communicator_; }
  /// The instant from which the host can see the first queued completion, or the first staged
  /// chunk; kNever if there is none. Chunks that receive workers receive are ignored.
  Instant next_completion() const { return connections_->next_visible(); }
  Instant next_chunk() const;

  /// Whether the NIC must still read data in `memory` for a multicast in its queue.
  bool sends_from(std::span<const std::byte> memory) const;

  /// Sends up to one burst of a queue and returns whether the queue has more to send. Queue numbers
  /// count the subgroups first, then the connections.
  bool transmit(std::uint32_t queue);
  void on_chunk(std::uint32_t subgroup, const StagedChunk& chunk);
  void on_probe(std::uint32_t subgroup, Rank source);
  /// Receives a packet and takes over the packet's reference to its payload.
  void on_packet(const NicPacket& packet);
  void on_timer() { connections_->on_timer(); }
  /// Must be called when the last packet that waited for credits at the host's port has left.
  void departed(Instant when) {
    for (auto& group : groups_) group->departed(when);
  }
  /// Stops the endpoint because its host has died: from now on it sends and receives nothing.
  void kill();

 private:
  Rank rank_;
  std::uint32_t size_;
  std::uint32_t communicator_;
  std::uint16_t wire_communicator_;
  Capabilities capabilities_;
  NicPort port_;
  NicShared nic_;
  /// Queue pairs of the subgroups, followed by the queue pair of the slot exchange if the endpoint
  /// has one.
  std::vector<std::unique_ptr<SimMulticastQueuePair>> groups_;
  bool workers_receive_ = false;  ///< whether receive workers, not the engine, receive the chunks
  /// Null if the endpoint has no slot exchange.
  std::unique_ptr<slots::DatagramSlotExchange> slot_exchange_;
  std::unique_ptr<Connections> connections_;
};

}  // namespace tutti::device::sim
