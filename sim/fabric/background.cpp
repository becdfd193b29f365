#include "sim/fabric/background.hpp"

#include <algorithm>

#include "base/random.hpp"

namespace tutti::sim {

BackgroundTraffic::BackgroundTraffic(EventQueue& queue, Fabric& fabric,
                                     const BackgroundSettings& settings)
    : queue_(queue),
      fabric_(fabric),
      settings_(settings),
      packet_time_(
          WireSpeed(fabric.topology().specs()[0].bits_per_second).time_of(settings.packet_bytes)) {
  const std::uint32_t hosts = fabric.topology().hosts();
  std::vector<std::uint32_t> order(hosts);
  for (std::uint32_t i = 0; i < hosts; ++i) order[i] = i;
  Random random(draw(settings.seed, 0x6261'636b));
  for (std::uint32_t i = hosts; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  for (std::uint32_t i = 0; i < settings.streams; ++i) {
    streams_.push_back({HostId{order[i % hosts]}, 0});
  }
}

std::uint64_t BackgroundTraffic::next_draw(std::uint32_t stream, std::uint64_t bound) {
  const std::uint64_t drawn = draw(settings_.seed, stream, ++streams_[stream].draws);
  return bound == 0 ? 0 : drawn % bound;
}

/// Schedules the next burst after a pause drawn uniformly from 0 to twice the mean.
void BackgroundTraffic::pause(std::uint32_t stream, Picoseconds now, Picoseconds mean) {
  const auto most = static_cast<std::uint64_t>(std::max<std::int64_t>(mean.count, 0)) * 2 + 1;
  const Picoseconds length{static_cast<std::int64_t>(next_draw(stream, most))};
  queue_.push({now + length, event_key(EventKind::background, stream), 0});
}

void BackgroundTraffic::start(Picoseconds now) {
  const Picoseconds burst = packet_time_ * settings_.burst_packets;
  for (std::uint32_t stream = 0; stream < streams_.size(); ++stream) pause(stream, now, burst);
}

void BackgroundTraffic::handle(const Event& event) {
  if (stopped_) return;
  const std::uint32_t stream = target_of(event);
  const HostId from = streams_[stream].from;
  const std::uint32_t hosts = fabric_.topology().hosts();
  const auto count =
      static_cast<std::uint32_t>(1 + next_draw(stream, 2 * std::uint64_t{settings_.burst_packets}));
  const auto ahead = static_cast<std::uint32_t>(1 + next_draw(stream, hosts - 1));
  const HostId to{(index(from) + ahead) % hosts};
  Picoseconds left = event.time;
  // A port that waits for credits takes no more packets, so background streams slow down too.
  for (std::uint32_t i = 0; i < count && fabric_.port_free(from) != kForever; ++i) {
    Packet packet = Packet::to_host(to, settings_.packet_bytes, settings_.packet_bytes);
    packet.flow = static_cast<std::uint32_t>(streams_[stream].draws);
    packet.background = true;
    const Picoseconds end = fabric_.inject(event.time, from, packet);
    if (end != kForever) left = end;
    ++packets_;
  }
  const Picoseconds busy = packet_time_ * count;
  const double pauses = std::max(1 / std::max(settings_.load, 1e-6) - 1, 0.0);
  pause(stream, left, {static_cast<std::int64_t>(static_cast<double>(busy.count) * pauses)});
}

}  // namespace tutti::sim
