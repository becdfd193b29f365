// Traffic of others: bursts between random hosts, so that a collective is seen under noise.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/fabric.hpp"

namespace tutti::sim {

struct BackgroundSettings {
  std::uint64_t seed = 1;
  std::uint32_t streams = 0;  ///< each from a host of its own, as long as there are enough
  double load = 0.1;          ///< share of a host's link that a stream takes on average, 0 .. 1
  std::uint32_t packet_bytes = 4122;
  std::uint32_t burst_packets = 16;  ///< on average, drawn from 1 to twice as many
};

/// Streams of bursts, each burst to another host, with pauses drawn between them. Its packets count
/// in the fabric's counters and fill its queues; the fabric's sink does not see them.
class BackgroundTraffic {
 public:
  /// `queue` and `fabric` outlive it.
  BackgroundTraffic(EventQueue& queue, Fabric& fabric, const BackgroundSettings& settings);

  /// Every stream begins after a pause of its own.
  void start(Picoseconds now);
  /// Handles events of kind `background`.
  void handle(const Event& event);
  /// No more bursts: events still pending do nothing, and the queue runs empty.
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
