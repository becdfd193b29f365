// Faults of multicast at the port of a host: a switch that has dropped the host's memberships, and
// a port that drops multicast. Packets of reliable connections are not affected.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/topology.hpp"
#include "tutti/units.hpp"

namespace tutti::device::sim {

/// A fault of a host: from the instant `at` on, no multicast reaches the host. The fault lasts for
/// `length`, or ends earlier if its kind allows that.
struct GroupFault {
  enum class Kind : std::uint8_t {
    expired,  ///< fault that also ends when the endpoint joins its groups again
    blocked,  ///< fault that always lasts for the whole `length`
  };
  Kind kind = Kind::expired;
  tutti::sim::HostId host{};
  Instant at{};
  Nanoseconds length{0};  ///< duration of the fault; 0: for ever

  friend bool operator==(const GroupFault&, const GroupFault&) = default;
};

class GroupFaults {
 public:
  void add(const GroupFault& fault) { faults_.push_back(fault); }
  /// Whether a multicast packet that reaches `to` at `now` vanishes. `joined` is the time at which
  /// the endpoint last joined its groups.
  bool loses(tutti::sim::HostId to, Instant joined, Instant now) const;

 private:
  std::vector<GroupFault> faults_;
};

}  // namespace tutti::device::sim
