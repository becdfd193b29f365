// The endpoint of one rank over UDP: its sockets and queue pairs in one communicator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/ip/datagram_batch.hpp"
#include "device/ip/datagram_sender.hpp"
#include "device/ip/egress_gate.hpp"
#include "device/ip/interface.hpp"
#include "device/ip/ip_options.hpp"
#include "device/ip/multicast/group_rejoin.hpp"
#include "device/ip/multicast/multicast_queue_pair.hpp"
#include "device/ip/unicast_doubt.hpp"
#include "device/rc/channel_set.hpp"
#include "device/rc/completion_queue.hpp"
#include "device/rc/frame_datagrams.hpp"
#include "device/slots/datagram_slot_exchange.hpp"

namespace tutti::device::ip {

class IpEndpoint final : public Endpoint, private rc::FrameSocket {
 public:
  static Result<std::unique_ptr<Endpoint>> open(const IpOptions& ip,
                                                const EndpointOptions& options);

  const Capabilities& capabilities() const override { return capabilities_; }
  std::string description() const override;
  std::vector<std::byte> address() const override;
  Status use_secret(std::span<const std::byte> secret) override;
  Status connect(std::span<const std::vector<std::byte>> addresses) override;
  std::uint32_t subgroup_count() const override {
    return static_cast<std::uint32_t>(groups_.size());
  }
  MulticastQueuePair& multicast(std::uint32_t subgroup) override { return *groups_[subgroup]; }
  Status rejoin_groups(Instant now) override;
  SlotExchange* slot_exchange() override { return slot_exchange_.get(); }
  Status use_receive_workers(bool on) override;
  Result<MemoryKey> register_memory(std::span<std::byte> memory) override {
    return channels_.memory().add(memory);
  }
  void deregister_memory(MemoryKey key) override { channels_.memory().remove(key); }
  void use_matcher(MessageMatcher* matcher) override { completions_.use_matcher(matcher); }
  std::size_t max_message_bytes() const override { return channels_.config().max_message_bytes; }
  Status post(Instant now, const WorkRequest& request) override;
  std::size_t poll(Instant now, std::span<Completion> completions) override;
  std::size_t poll_posted(Instant now, std::span<Completion> completions) override;
  void watch(Rank peer, bool on) override { channels_.watch(now_, peer, on); }
  void release_peer(Rank peer) override { channels_.release_peer(peer); }
  void test_path(Rank peer) override { channels_.test_path(peer); }
  std::vector<std::uint32_t> probe_sizes() const override;
  void probe_path(Rank peer, std::uint32_t bytes) override;
  void limit_datagrams(std::uint32_t bytes) override;
  void abandon() override;
  bool quiet() const override { return channels_.quiet(); }
  Instant next_deadline() const override {
    if (groups_.front()->frames().any() || !completions_.empty()) return now_;
    return std::min(channels_.next_deadline(), rejoin_.deadline());
  }
  int wait_descriptor() const override { return epoll_.get(); }
  bool prepare_wait() override;
  void notify_when_sendable(bool on) override;
  EndpointCounters counters() const override;
  PrioritiesInUse* priorities() override { return &gate_.priorities(); }

 private:
  IpEndpoint(const IpOptions& ip, const EndpointOptions& options, const Interface& interface,
             std::uint32_t incarnation, bool offload);

  Status open_sockets();
  bool receive(Instant now) override;
  bool send(Instant now, Rank rank, rc::RcChannel& rc) override;
  void send_sign_of_life() override;
  bool flush(Rank rank, rc::RcChannel& rc);
  std::size_t take(std::span<Completion> completions);
  void shape_chunks();

  /// A frame that is in the batch of `sender_` and has not been sent by unicast yet.
  struct BatchedFrame {
    rc::OutgoingFrame frame;
    bool multicast_too = false;
  };

  IpOptions ip_;
  EndpointOptions options_;
  Interface interface_;
  Capabilities capabilities_;
  /// Payload bytes of the largest datagram: the smallest value that a rank announced. A datagram
  /// carries a chunk by UD and a fragment by UC.
  std::uint32_t datagram_payload_ = 0;
  std::uint32_t incarnation_;
  Descriptor unicast_;
  /// Size of the receive buffer of unicast_ in bytes, as the kernel counts it.
  std::uint64_t unicast_buffer_bytes_ = 0;
  Descriptor epoll_;
  std::vector<std::unique_ptr<IpMulticastQueuePair>> groups_;
  /// Null if this communicator has no slot exchange, for example because it has too many ranks.
  std::unique_ptr<IpMulticastQueuePair> slot_pair_;
  std::unique_ptr<slots::DatagramSlotExchange>
      slot_exchange_;  ///< null before `connect`, or if slot_pair_ is null
  /// True while epoll_ includes the socket of slot_pair_.
  bool slots_watched_ = false;
  std::vector<SocketAddress> peers_;  ///< unicast addresses of all ranks
  rc::ChannelSet channels_;
  rc::FrameDatagrams datagrams_;
  DatagramBatch batch_{4};
  DatagramSender sender_;
  ConnectionGate gate_;  ///< egress gate of the socket unicast_
  std::vector<BatchedFrame> in_batch_;
  rc::CompletionQueue completions_;
  Instant now_{};
  GroupRejoin rejoin_;
  UnicastDoubt unicast_doubt_;
  EndpointCounters counters_;
};

}  // namespace tutti::device::ip
