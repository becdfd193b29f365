#include "sim/fabric/core/link_faults.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"

namespace tutti::sim {
namespace {

constexpr std::uint64_t kLossPurpose = 0x6c6f'7373;

std::uint64_t toggle_name(LinkId link, std::uint64_t identity) {
  return draw(kLossPurpose, index(link), identity);
}

}  // namespace

LinkFaults::LinkFaults(const Topology& topology, std::uint64_t seed)
    : topology_(topology), seed_(seed), thresholds_(topology.specs().size() * kLinkClasses) {
  for (const LinkSpec& spec : topology.specs()) any_loss_ = any_loss_ || spec.bit_error_rate > 0;
}

/// The loss threshold for packets of this size on this link: a packet is lost if its draw is below
/// the threshold.
std::uint64_t LinkFaults::threshold(LinkId link, std::uint32_t wire_bytes) {
  const Link& wire = topology_.link(link);
  const auto link_class = static_cast<std::size_t>(wire.link_class);
  Threshold& known = thresholds_[wire.spec * kLinkClasses + link_class];
  if (known.wire_bytes == wire_bytes) return known.value;
  const double errors = topology_.specs()[wire.spec].bit_error_rate;
  const double passes =
      (1 - class_loss_[link_class]) * std::exp(8.0 * wire_bytes * std::log1p(-errors));
  const double lost = std::clamp(1 - passes, 0.0, 1.0);
  known.wire_bytes = wire_bytes;
  known.value = lost >= 1 ? UINT64_MAX : static_cast<std::uint64_t>(std::ldexp(lost, 64));
  return known.value;
}

bool LinkFaults::lost(LinkId link, const Packet& packet, std::uint32_t i) {
  const std::uint64_t identity = packet.identity + i;
  const std::uint64_t limit = threshold(link, packet.wire_bytes);
  const bool drawn = limit != 0 && draw(seed_ ^ kLossPurpose, index(link), identity) < limit;
  if (toggled_.empty()) return drawn;
  return drawn != toggled_.contains(toggle_name(link, identity));
}

void LinkFaults::set_loss(LinkClass link_class, double probability) {
  class_loss_[static_cast<std::size_t>(link_class)] = std::clamp(probability, 0.0, 1.0);
  for (Threshold& known : thresholds_) known = {};
  any_loss_ = any_loss_ || probability > 0;
}

void LinkFaults::toggle_loss(LinkId link, std::uint64_t identity) {
  const std::uint64_t name = toggle_name(link, identity);
  if (toggled_.erase(name) == 0) toggled_.insert(name);
  any_loss_ = true;
}

void LinkFaults::set_link(LinkId link, bool up) {
  if (up) {
    down_.erase(index(link));
  } else {
    down_.insert(index(link));
  }
}

}  // namespace tutti::sim
