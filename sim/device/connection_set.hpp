// The reliable connections of a simulated NIC: one to each peer with which it has exchanged
// packets.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "device/frame_tap.hpp"
#include "sim/device/connections.hpp"
#include "sim/device/nic_connection.hpp"
#include "sim/device/nic_port.hpp"
#include "sim/device/ring_queue.hpp"

namespace tutti::device::sim {

/// Creates connections on demand; all of them share one timer. In the NIC port, the queues of the
/// connections have consecutive numbers from `first_queue` on.
class ConnectionSet final : public Connections {
 public:
  /// `port` and `nic` must outlive this object. `tap` decides how many copies of each frame are
  /// sent; null: one copy.
  ConnectionSet(NicPort& port, NicShared& nic, Rank rank, std::uint32_t communicator,
                std::uint32_t first_queue, std::shared_ptr<FrameTap> tap);

  Status post(Instant now, const WorkRequest& request) override;
  /// If the host's worker serves the connections, poll() also processes the packets that have
  /// arrived and the timers that are due.
  std::size_t poll(Instant now, std::span<Completion> completions) override;
  void watch(Rank peer, bool on) override;
  void abandon() override;
  bool quiet() const override;
  /// The next instant at which the host's worker has a timer to serve; kNever if the NIC serves the
  /// timers.
  Instant next_deadline() const override;
  Result<MemoryKey> register_memory(std::span<std::byte> memory) override {
    return nic_->regions.add(memory);
  }
  void deregister_memory(MemoryKey key) override { nic_->regions.remove(key); }
  void use_matcher(MessageMatcher* matcher) override { nic_->matcher = matcher; }
  std::size_t max_message_bytes() const override { return nic_->settings.chunk_bytes; }

  void on_packet(const NicPacket& packet) override;
  void on_probe(Rank source, std::uint32_t subgroup) override;
  void on_timer() override;
  /// Sends up to one burst of the connection with index `at`. Returns whether the connection has
  /// more to send.
  bool transmit(std::uint32_t at) override;
  Instant next_visible() const override;
  void clear() override;

 private:
  struct Peer {
    Rank rank;
    std::uint32_t connection;
  };

  std::uint32_t connection(Rank peer);
  void ready(std::uint32_t at);
  void inject(NicPacket& packet);
  void process(const NicPacket& packet);
  void serve(Instant now);
  void run_timers(Instant now);
  Instant next_timer() const;
  void arm_timer(Instant deadline);
  void wake_for_completion();

  NicPort* port_;
  NicShared* nic_;
  std::shared_ptr<FrameTap> tap_;
  Rank rank_;
  std::uint16_t communicator_;
  std::uint32_t first_queue_;
  std::vector<NicConnection> connections_;
  std::vector<Peer> peers_;     ///< sorted by rank
  RingQueue<NicPacket> inbox_;  ///< packets that the host's worker has still to process
  Instant timer_at_ = kNever;
};

}  // namespace tutti::device::sim
