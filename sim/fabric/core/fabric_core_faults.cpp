// Losses on links. Each loss is a draw keyed by (seed, link, packet), independent of all else, so
// one draw can be inverted without affecting another.
#include <cmath>

#include "sim/fabric/core/fabric_core.hpp"

namespace tutti::sim {
namespace {

constexpr std::uint64_t kLossPurpose = 0x6c6f'7373;

std::uint64_t toggle_name(LinkId link, std::uint64_t identity) {
  return draw(kLossPurpose, index(link), identity);
}

}  // namespace

/// Packets of this size are lost on this link if their draw is below the result.
std::uint64_t FabricCore::loss_threshold(LinkId link, std::uint32_t wire_bytes) {
  const Link& wire = topology_.link(link);
  const auto link_class = static_cast<std::size_t>(wire.link_class);
  LossCache& cache = loss_cache_[wire.spec * kLinkClasses + link_class];
  if (cache.wire_bytes == wire_bytes) return cache.threshold;
  const double errors = topology_.specs()[wire.spec].bit_error_rate;
  const double passes =
      (1 - class_loss_[link_class]) * std::exp(8.0 * wire_bytes * std::log1p(-errors));
  const double lost = std::clamp(1 - passes, 0.0, 1.0);
  cache.wire_bytes = wire_bytes;
  cache.threshold = lost >= 1 ? UINT64_MAX : static_cast<std::uint64_t>(std::ldexp(lost, 64));
  return cache.threshold;
}

bool FabricCore::lost(LinkId link, const Packet& packet, std::uint32_t i) {
  const std::uint64_t identity = packet.identity + i;
  const std::uint64_t threshold = loss_threshold(link, packet.wire_bytes);
  const bool drawn = threshold != 0 && draw(settings_.seed ^ kLossPurpose, tutti::sim::index(link),
                                            identity) < threshold;
  if (toggled_.empty()) return drawn;
  return drawn != toggled_.contains(toggle_name(link, identity));
}

/// Applies losses to a part that started on a link: they cut it into runs that arrive.
void FabricCore::send_with_loss(LinkId link, Picoseconds begin, const TrainPart& part) {
  const Packet packet = flights_[part.flight].packet;
  const Picoseconds time = packet_time(link, packet);
  const auto when = [&](std::uint32_t i) { return begin + time * (i - part.first); };
  std::uint32_t first = part.first;
  const std::uint32_t end = std::uint32_t{part.first} + part.count;
  for (std::uint32_t i = first; i <= end; ++i) {
    if (i < end && !lost(link, packet, i)) continue;
    if (i > first) {
      const TrainPart run{part.flight, static_cast<std::uint16_t>(first),
                          static_cast<std::uint16_t>(i - first)};
      push_arrival(link, when(first), run);
    }
    first = i + 1;
    if (i == end) break;
    if (!credits_.empty() && !topology_.is_host_down(link)) {
      const Picoseconds latency = latencies_[topology_.link(link).spec];
      release(link, {when(i) + time + latency * 2, {}, packet.wire_bytes, 1});
    }
    const TrainPart gone{part.flight, static_cast<std::uint16_t>(i), 1};
    drop(link, when(i) + take_up_time(link, packet), gone, DropReason::bit_error);
  }
}

void FabricCore::set_loss(LinkClass link_class, double probability) {
  class_loss_[static_cast<std::size_t>(link_class)] = std::clamp(probability, 0.0, 1.0);
  for (LossCache& cache : loss_cache_) cache = {};
  any_loss_ = any_loss_ || probability > 0;
}

void FabricCore::toggle_loss(LinkId link, std::uint64_t identity) {
  const std::uint64_t name = toggle_name(link, identity);
  if (toggled_.erase(name) == 0) toggled_.insert(name);
  any_loss_ = true;
}

void FabricCore::set_link(LinkId link, bool up) {
  if (up) {
    down_.erase(tutti::sim::index(link));
  } else {
    down_.insert(tutti::sim::index(link));
  }
}

void FabricCore::pause(LinkId link, Picoseconds until) {
  leave_slice(link);
  Picoseconds& busy = ports_[tutti::sim::index(link)].busy_until;
  busy = std::max(busy, until);
}

}  // namespace tutti::sim
