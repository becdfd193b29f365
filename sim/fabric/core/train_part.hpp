// A part of a train of packets on its way through the fabric.
#pragma once

#include <cstdint>

#include "sim/fabric/time.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::sim {

/// Consecutive packets of a train at one place: the subject of one event.
struct TrainPart {
  std::uint32_t flight = 0;  ///< slot of the packet
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

/// The arrival of a part at the place that forwards it.
struct Incoming {
  LinkId link = kNoLink;       ///< kNoLink if injected
  Picoseconds ready;           ///< the first packet may start
  Picoseconds spacing;         ///< time between packets becoming ready
  Picoseconds tail;            ///< the last bit of the first packet has arrived
  Picoseconds left_at{};       ///< out: the last bit of the last copy has left
  Picoseconds left_spacing{};  ///< out: time between the departures of a train's packets
  std::uint32_t hold = 0;      ///< out: set if a copy waits
};

}  // namespace tutti::sim
