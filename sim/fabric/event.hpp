// The events of a simulation and their total order.
#pragma once

#include <cstdint>

#include "sim/fabric/time.hpp"

namespace tutti::sim {

/// The kind of an event, which determines its handler. Of two events at one instant, the event with
/// the lower kind comes first.
enum class EventKind : std::uint8_t {
  fabric_arrival = 0,       ///< Fabric: a packet or train reaches the end of a link; target: link
  fabric_leaf_arrival = 1,  ///< Fabric: a packet or train reaches several hosts of a leaf at once
  /// Fabric: credits may have returned to a port that had too few; target: the link of the port.
  fabric_credit = 2,
  background = 3,  ///< BackgroundTraffic: the next burst of a stream begins; target: the stream
  traffic = 4,     ///< TrafficRun: a message has been processed, or a packet has left its host
  user = 16,       ///< first kind that users of the fabric may define
};

/// Events are ordered by (time, key, argument). Events with equal time and key may have different
/// arguments only if the results do not depend on the order of these events.
struct Event {
  Picoseconds time;
  /// Value of event_key(): kind, target, and a detail that distinguishes events of one instant.
  std::uint64_t key = 0;
  std::uint64_t argument = 0;  ///< value whose meaning the handler defines

  friend constexpr bool operator<(const Event& a, const Event& b) {
    if (a.time != b.time) return a.time < b.time;
    if (a.key != b.key) return a.key < b.key;
    return a.argument < b.argument;
  }
  friend constexpr bool operator==(const Event&, const Event&) = default;
};
static_assert(sizeof(Event) == 24);

/// Packs a kind (8 bits), a target (32 bits) and a detail (24 bits) into the key of an event.
constexpr std::uint64_t event_key(EventKind kind, std::uint32_t target, std::uint32_t detail = 0) {
  return std::uint64_t{static_cast<std::uint8_t>(kind)} << 56 | std::uint64_t{target} << 24 |
         (detail & 0xff'ffffu);
}
constexpr EventKind kind_of(const Event& event) { return static_cast<EventKind>(event.key >> 56); }
constexpr std::uint32_t target_of(const Event& event) {
  return static_cast<std::uint32_t>(event.key >> 24);
}
constexpr std::uint32_t detail_of(const Event& event) {
  return static_cast<std::uint32_t>(event.key) & 0xff'ffffu;
}

}  // namespace tutti::sim
