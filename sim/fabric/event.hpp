// The events of a simulation and their total order.
#pragma once

#include <cstdint>

#include "sim/fabric/time.hpp"

namespace tutti::sim {

/// The kind of an event, by which the event loop dispatches. At one instant, lower kinds come
/// first.
enum class EventKind : std::uint8_t {
  fabric_arrival = 0,       ///< Fabric: a packet or train reaches the end of a link (target)
  fabric_leaf_arrival = 1,  ///< Fabric: the same packet reaches many hosts of a leaf at once
  fabric_credit = 2,        ///< Fabric: a blocked port (target: link) may have credits again
  background = 3,           ///< BackgroundTraffic: the next packet of a stream (target)
  traffic = 4,              ///< TrafficRun: a message (target) is processed
  user = 16,                ///< 16 and above: kinds of the caller (device, simulation)
};

/// An event, ordered by (time, key, argument). Two events may share time and key only if they share
/// the argument or the handler does not depend on their order.
struct Event {
  Picoseconds time;
  /// Event_key(): kind, target, and a detail that distinguishes events of one instant.
  std::uint64_t key = 0;
  std::uint64_t argument = 0;  ///< free for the handler

  friend constexpr bool operator<(const Event& a, const Event& b) {
    if (a.time != b.time) return a.time < b.time;
    if (a.key != b.key) return a.key < b.key;
    return a.argument < b.argument;
  }
  friend constexpr bool operator==(const Event&, const Event&) = default;
};
static_assert(sizeof(Event) == 24);

/// Packs kind (8 bits), target (32 bits) and a detail (24 bits).
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
