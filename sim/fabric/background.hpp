// Background traffic: bursts of packets between random hosts while a collective runs.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/fabric.hpp"

namespace tutti::sim {

struct BackgroundSettings {
  std::uint64_t seed = 1;
  /// Number of streams. No two streams send from the same host, unless there are more streams than
  /// hosts.
  std::uint32_t streams = 0;
  /// Average rate of a stream, as a fraction (0 to 1) of the rate of its host's link.
  double load = 0.1;
  std::uint32_t packet_bytes = 4122;
  /// Mean number of packets in a burst. The size of each burst is drawn from 1 to twice this mean.
  std::uint32_t burst_packets = 16;
};

/// Streams that send bursts of packets to random hosts, with random pauses between the bursts. The
/// packets occupy the fabric's queues and are counted by its counters, but the fabric does not
/// report them to its sink.
class BackgroundTraffic {
 public:
  /// `queue` and `fabric` must outlive this object.
  BackgroundTraffic(EventQueue& queue, Fabric& fabric, const BackgroundSettings& settings);

  /// Starts every stream after a random pause, which differs between streams.
  void start(Picoseconds now);
  /// Handles events of kind `background`.
  void handle(const Event& event);
  /// Stops the streams. Events that are still pending then send nothing and push no further event,
  /// so the event queue can become empty.
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
