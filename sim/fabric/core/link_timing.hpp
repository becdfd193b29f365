// How long packets occupy the links of a fabric.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/fabric/fabric_types.hpp"
#include "sim/fabric/time.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::sim {

/// Computes durations on a link from the link's rate and latency and the fabric's settings.
class LinkTiming {
 public:
  /// `topology` must outlive this object.
  LinkTiming(const Topology& topology, const FabricSettings& settings)
      : topology_(topology), forwarding_(settings.forwarding) {
    for (const LinkSpec& spec : topology.specs()) {
      const WireSpeed speed(spec.bits_per_second);
      kinds_.push_back({speed, spec.latency, speed.time_of(settings.queue_bytes)});
    }
  }

  /// The time that a packet occupies a link.
  Picoseconds packet_time(LinkId link, const Packet& packet) const {
    return std::max(kind(link).speed.time_of(packet.wire_bytes), picoseconds(1));
  }
  /// The time from the start of a packet on a link until its receiver may process it.
  Picoseconds take_up_time(LinkId link, const Packet& packet) const {
    const bool whole = forwarding_ == Forwarding::store_and_forward ||
                       topology_.is_host_down(link) || packet.wire_bytes <= kLeadBytes;
    const std::uint32_t read_bytes = whole ? packet.wire_bytes : kLeadBytes;
    const Kind& wire = kind(link);
    return std::max(wire.speed.time_of(read_bytes), picoseconds(1)) + wire.latency;
  }
  Picoseconds latency(LinkId link) const { return kind(link).latency; }
  /// In lossy mode: the time in which a port sends a full queue over its link.
  Picoseconds full_queue_time(LinkId link) const { return kind(link).full_queue; }

 private:
  /// Number of bytes of a packet that a cut-through switch must receive before it forwards the
  /// packet.
  static constexpr std::uint32_t kLeadBytes = 64;

  struct Kind {
    WireSpeed speed;
    Picoseconds latency;
    Picoseconds full_queue;
  };
  const Kind& kind(LinkId link) const { return kinds_[topology_.link(link).spec]; }

  const Topology& topology_;
  const Forwarding forwarding_;
  std::vector<Kind> kinds_;  ///< timing of each kind of link, indexed by Link::spec
};

}  // namespace tutti::sim
