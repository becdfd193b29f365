// The reliable connections of a simulated endpoint: one to each peer with which it has exchanged
// packets.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "device/frame_tap.hpp"
#include "sim/device/nic_connection.hpp"
#include "sim/device/nic_port.hpp"
#include "sim/device/ring_queue.hpp"

namespace tutti::device::sim {

/// Creates connections on demand; all of them share one timer. The queues of the connections have
/// the numbers from `first_queue` on in the NIC port.
class ConnectionSet {
 public:
  /// `port` and `nic` must outlive this object. `tap`, the hook for faults of frames, may be null.
  ConnectionSet(NicPort& port, NicShared& nic, Rank rank, std::uint32_t communicator,
                std::uint32_t first_queue, std::shared_ptr<FrameTap> tap);

  Status post(Instant now, const WorkRequest& request);
  void watch(Rank peer, bool on);
  /// Receives a packet and takes over the packet's reference to its payload.
  void on_packet(const NicPacket& packet);
  /// If the host's worker serves the connections: processes the packets that have arrived and the
  /// timers that are due.
  void serve(Instant now);
  void on_timer();
  /// Sends up to one burst of the connection with number `at`. Returns whether this connection has
  /// more to send.
  bool transmit(std::uint32_t at);

  bool quiet() const;
  /// If the host's worker serves the connections: whether arrived packets wait for it.
  bool has_arrivals() const { return !inbox_.empty(); }
  /// The next instant at which a connection has work to do; kNever if no connection has a deadline.
  Instant next_deadline() const;
  /// Releases all payloads.
  void clear();

 private:
  struct Peer {
    Rank rank;
    std::uint32_t connection;
  };

  std::uint32_t connection(Rank peer);
  void ready(std::uint32_t at);
  void inject(NicPacket& packet);
  void process(const NicPacket& packet);
  void run_timers(Instant now);
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
