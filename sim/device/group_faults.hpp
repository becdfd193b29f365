// Faults of multicast at the port of a host: a switch that has dropped the host's memberships, and a
// port that drops multicast. Packets of reliable connections are not affected.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/topology.hpp"
#include "tutti/units.hpp"

namespace tutti::device::sim {

/// A time from which no multicast reaches a host.
struct GroupFault {
  enum class Kind : std::uint8_t {
    expired,  ///< until the endpoint joins its groups again
    blocked,  ///< for the whole length
  };
  Kind kind = Kind::expired;
  tutti::sim::HostId host{};
  Instant at{};
  Nanoseconds length{0};  ///< 0: for ever

  friend bool operator==(const GroupFault&, const GroupFault&) = default;
};

class GroupFaults {
 public:
  void add(const GroupFault& fault) { faults_.push_back(fault); }
  /// Whether a multicast packet that reaches `to` now vanishes. `joined`: the time at which the
  /// endpoint has joined its groups last.
  bool loses(tutti::sim::HostId to, Instant joined, Instant now) const;

 private:
  std::vector<GroupFault> faults_;
};

}  // namespace tutti::device::sim
