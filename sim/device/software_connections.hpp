// Reliable connections of a simulated endpoint, run by the host's software. They use the channels
// of device/rc, like the `ip` device. A send queue and a receive queue of the simulated host
// replace the sockets.
//
// All work is done when the host polls. Between two polls arrived datagrams wait in the receive
// queue, no ACK is sent, and no timeout takes effect.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/frame_tap.hpp"
#include "device/rc/channel_set.hpp"
#include "device/rc/completion_queue.hpp"
#include "device/rc/frame_datagrams.hpp"
#include "sim/device/connections.hpp"
#include "sim/device/nic_connection.hpp"
#include "sim/device/nic_port.hpp"
#include "sim/device/ring_queue.hpp"

namespace tutti::device::sim {

/// The settings with which the channels of device/rc run on a simulated NIC.
rc::RcConfig channel_config(const NicSettings& settings, const EndpointOptions& options);

class SoftwareConnections final : public Connections, private rc::FrameSocket {
 public:
  /// `port` and `nic` must outlive this object. The datagrams leave by queue `queue` of the port.
  /// `tap` decides how many copies of each frame are sent; null: one copy. channel_config() must be
  /// valid.
  SoftwareConnections(NicPort& port, NicShared& nic, const EndpointOptions& options,
                      std::uint32_t communicator, std::uint32_t queue,
                      std::shared_ptr<FrameTap> tap);

  Status use_secret(std::span<const std::byte> secret) override;
  Status post(Instant now, const WorkRequest& request) override;
  std::size_t poll(Instant now, std::span<Completion> completions) override;
  std::size_t poll_posted(Instant now, std::span<Completion> completions) override;
  void watch(Rank peer, bool on) override { channels_.watch(now_, peer, on); }
  void release_peer(Rank peer) override { channels_.release_peer(peer); }
  void test_path(Rank peer) override { channels_.test_path(peer); }
  void abandon() override { channels_.abandon(); }
  bool quiet() const override { return channels_.quiet() && arrived_.empty(); }
  Instant next_deadline() const override { return channels_.next_deadline(); }
  Result<MemoryKey> register_memory(std::span<std::byte> memory) override {
    return channels_.memory().add(memory);
  }
  void deregister_memory(MemoryKey key) override { channels_.memory().remove(key); }
  void use_matcher(MessageMatcher* matcher) override { completions_.use_matcher(matcher); }
  std::size_t max_message_bytes() const override { return channels_.config().max_message_bytes; }

  void on_packet(const NicPacket& packet) override;
  void on_probe(Rank source, std::uint32_t subgroup) override;
  bool transmit(std::uint32_t at) override;
  Instant next_visible() const override;
  void add_to(EndpointCounters& counters) const override;
  void clear() override;

 private:
  /// A datagram in the receive queue, and the instant from which the host can read it.
  struct Datagram {
    Payload* payload = nullptr;
    Instant visible{};
    std::uint32_t sender_host = 0;
    bool stranger = false;
  };
  struct Probe {
    Rank source = kNoRank;
    std::uint32_t subgroup = 0;
    Instant visible{};
  };

  bool receive(Instant now) override;
  bool send(Instant now, Rank peer, rc::RcChannel& channel) override;
  void send_sign_of_life() override;
  void probe_path(Rank peer, std::uint32_t bytes) override;
  void enqueue(Rank peer, const rc::OutgoingFrame& frame);
  std::size_t take(Instant now, std::span<Completion> completions);

  NicPort* port_;
  NicShared* nic_;
  std::shared_ptr<FrameTap> tap_;
  Rank rank_;
  std::uint16_t communicator_;
  std::uint32_t queue_;
  rc::ChannelSet channels_;
  rc::FrameDatagrams datagrams_;
  rc::CompletionQueue completions_;
  RingQueue<NicPacket> unsent_;
  RingQueue<Datagram> arrived_;
  RingQueue<Probe> probes_;
  Instant now_{};
};

}  // namespace tutti::device::sim
