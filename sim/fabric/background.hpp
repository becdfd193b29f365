// Background traffic: bursts between random hosts beside a collective.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/fabric.hpp"

namespace tutti::sim {

struct BackgroundSettings {
  std::uint64_t seed = 1;
  std::uint32_t streams = 0;  ///< each from its own host while there are enough hosts
  double load = 0.1;          ///< mean share of a host's link that a stream takes, 0 to 1
  std::uint32_t packet_bytes = 4122;
  std::uint32_t burst_packets = 16;  ///< mean burst length; drawn from 1 to twice the mean
};

/// Streams of bursts, each burst to another host, with random pauses between them. Its packets
/// occupy the fabric's queues and count in its counters, but the fabric's sink does not see them.
class BackgroundTraffic {
 public:
  /// `queue` and `fabric` outlive it.
  BackgroundTraffic(EventQueue& queue, Fabric& fabric, const BackgroundSettings& settings);

  /// Starts every stream after a pause of its own.
  void start(Picoseconds now);
  /// Handles events of kind `background`.
  void handle(const Event& event);
  /// Stops new bursts. Pending events then do nothing, so the queue can run empty.
  void stop() { stopped_ = true; }

  std::uint64_t packets() const { return packets_; }

 private:
  struct Stream {
    HostId from{};
    std::uint64_t draws = 0;
  };
  std::uint64_t next_draw(std::uint32_t stream, std::uint64_t bound);
  void pause(std::uint32_t stream, Picoseconds now, Picoseconds mean);

  EventQueue& queue_;
  Fabric& fabric_;
  const BackgroundSettings settings_;
  const Picoseconds packet_time_;
  std::vector<Stream> streams_;
  std::uint64_t packets_ = 0;
  bool stopped_ = false;
};

}  // namespace tutti::sim
