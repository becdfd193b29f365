// The reliable connections of a simulated endpoint, one to each peer that it has met.
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

/// Connections are created on demand. Their queues follow the `first_queue` others of the port, and
/// they share one timer.
class ConnectionSet {
 public:
  /// `port` and `nic` outlive it. `tap` is for tests and may be null.
  ConnectionSet(NicPort& port, NicShared& nic, Rank rank, std::uint32_t communicator,
                std::uint32_t first_queue, std::shared_ptr<FrameTap> tap);

  Status post(Instant now, const WorkRequest& request);
  void watch(Rank peer, bool on);
  /// Takes over a packet and its reference to the payload.
  void on_packet(const NicPacket& packet);
  /// Host-serviced: processes what has arrived and what is due.
  void serve(Instant now);
  void on_timer();
  /// Sends up to one burst of connection number `at`. Returns whether it has more.
  bool transmit(std::uint32_t at);

  bool quiet() const;
  /// Host-serviced: whether the worker has packets to process.
  bool has_arrivals() const { return !inbox_.empty(); }
  /// The next instant at which a connection has work to do; kNever if none.
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
  RingQueue<NicPacket> inbox_;  ///< host-serviced: packets that the worker has not processed
  Instant timer_at_ = kNever;
};

}  // namespace tutti::device::sim
