// A part of a train of packets on its way through the fabric.
#pragma once

#include <cstdint>

#include "sim/fabric/time.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::sim {

/// Consecutive packets of a train that one event handles together.
struct TrainPart {
  std::uint32_t flight = 0;  ///< index in the list of packets and trains in flight
  std::uint16_t first = 0;
  std::uint16_t count = 1;

  std::uint64_t pack() const {
    return std::uint64_t{flight} << 32 | std::uint64_t{first} << 16 | count;
  }
  static TrainPart unpack(std::uint64_t argument) {
    return {static_cast<std::uint32_t>(argument >> 32), static_cast<std::uint16_t>(argument >> 16),
            static_cast<std::uint16_t>(argument)};
  }
};

/// The arrival of a train part at a host's port or at a switch, from where the part is forwarded.
/// Forwarding fills in the last three fields.
struct Incoming {
  LinkId link = kNoLink;       ///< link of the arrival; kNoLink if a host injects the part
  Picoseconds ready;           ///< instant from which the first packet may start on the next link
  Picoseconds spacing;         ///< time between the `ready` instants of successive packets
  Picoseconds tail;            ///< instant at which the last bit of the first packet has arrived
  Picoseconds left_at{};       ///< result: instant at which the last bit of the last copy has left
  Picoseconds left_spacing{};  ///< result: time between the departures of a train's packets
  /// Result: if a copy of the packet waits for credits, the index of the packet's buffer space in
  /// LinkCredits; otherwise 0.
  std::uint32_t hold = 0;
};

}  // namespace tutti::sim
