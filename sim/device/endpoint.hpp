// One rank's endpoint in one communicator, on the NIC of a simulated host.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "device/frame_tap.hpp"
#include "sim/device/multicast_queue.hpp"
#include "sim/device/nic_connection.hpp"
#include "wire/header.hpp"

namespace tutti::device::sim {

class SimNetwork;

/// Allocates header, bytes and their tag for `references` receivers.
Payload* make_chunk(PayloadStore& payloads, const wire::Header& header,
                    std::span<const std::byte> bytes, std::uint32_t references);

class SimEndpoint final : public Endpoint {
 public:
  /// `number` is that of the endpoint in the network, `communicator` that of the communicator.
  SimEndpoint(SimNetwork& network, const EndpointOptions& options, const NicSettings& settings,
              std::uint32_t number, std::uint32_t communicator, std::uint32_t host,
              std::shared_ptr<FrameTap> tap);
  ~SimEndpoint() override;

  const Capabilities& capabilities() const override { return capabilities_; }
  std::vector<std::byte> address() const override;
  /// Refuses peers with different NIC settings. Not needed if all are equal.
  Status connect(std::span<const std::vector<std::byte>> addresses) override;
  std::uint32_t subgroup_count() const override {
    return static_cast<std::uint32_t>(groups_.size());
  }
  MulticastQueuePair& multicast(std::uint32_t subgroup) override { return *groups_[subgroup]; }
  Result<MemoryKey> register_memory(std::span<std::byte> memory) override {
    return nic_.regions.add(memory);
  }
  void deregister_memory(MemoryKey key) override { nic_.regions.remove(key); }
  std::size_t max_message_bytes() const override { return nic_.settings.chunk_bytes; }
  Status post(Instant now, const WorkRequest& request) override;
  std::size_t poll(Instant now, std::span<Completion> completions) override;
  void watch(Rank peer, bool on) override;
  bool quiet() const override;
  Instant next_deadline() const override;
  int wait_descriptor() const override { return -1; }
  void notify_when_sendable(bool) override {}
  EndpointCounters counters() const override { return nic_.counters; }

  // The state shared with the NIC, and with the simulation.
  NicShared& nic() { return nic_; }
  const NicShared& nic() const { return nic_; }
  Instant now() const;
  std::uint32_t number() const { return number_; }
  std::uint32_t host() const { return host_; }
  Rank rank() const { return rank_; }
  std::uint32_t communicator() const { return communicator_; }
  /// Counts the packets of reliable connections, including acknowledgements.
  std::uint64_t next_transmission() { return transmissions_++; }
  /// A non-null address that stands for bytes that are not carried.
  const std::byte* absent_bytes() const { return reinterpret_cast<const std::byte*>(this); }
  /// The instant at which a sleeping worker would find a completion or a chunk; kNever if none
  /// waits.
  Instant next_completion() const;
  Instant next_chunk() const;

  /// Whether a multicast queued in the NIC sends from this memory.
  bool sends_from(std::span<const std::byte> memory) const;

  /// Reports that a multicast queue pair has something to send.
  void multicast_ready(std::uint32_t subgroup);
  /// Sends up to one burst of a queue, which is a subgroup or a connection numbered after the
  /// subgroups. Returns whether the queue has more.
  bool transmit(std::uint32_t queue);
  void on_chunk(std::uint32_t subgroup, const StagedChunk& chunk);
  void on_probe(std::uint32_t subgroup, Rank source);
  /// Takes over a packet and its reference to the payload.
  void on_packet(const NicPacket& packet);
  void on_timer();
  /// Reports that a packet that waited for credits has left the host.
  void departed(Instant when) {
    for (auto& group : groups_) group->departed(when);
  }
  /// Kills the host: it sends and receives nothing from now on.
  void kill();

 private:
  struct Peer {
    Rank rank;
    std::uint32_t connection;
  };

  std::uint32_t connection(Rank peer);
  void connection_ready(std::uint32_t at);
  void make_ready(std::uint32_t queue);
  bool transmit_multicast(std::uint32_t subgroup);
  bool transmit_reliable(std::uint32_t at);
  void inject_reliable(NicPacket& packet);
  void serve(const NicPacket& packet);
  void run_timers(Instant now);
  void arm_timer(Instant deadline);
  void wake_for_completion() { network_wake(nic_.completions.next_visible(), false); }
  void network_wake(Instant visible, bool chunk);

  SimNetwork* network_;
  std::shared_ptr<FrameTap> tap_;
  Rank rank_;
  std::uint32_t size_;
  std::uint32_t number_;
  std::uint32_t communicator_;
  std::uint32_t host_;
  std::uint16_t wire_communicator_;
  bool dead_ = false;
  Capabilities capabilities_;
  NicShared nic_;
  std::vector<std::unique_ptr<SimMulticastQueuePair>> groups_;
  std::vector<NicConnection> connections_;
  std::vector<Peer> peers_;     ///< sorted by rank
  std::vector<bool> queued_;    ///< queues waiting for their turn at the port
  RingQueue<NicPacket> inbox_;  ///< host-serviced: packets that the worker has not processed
  Instant timer_at_ = kNever;
  std::uint64_t transmissions_ = 0;
};

}  // namespace tutti::device::sim
