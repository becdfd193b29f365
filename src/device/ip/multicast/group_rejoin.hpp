// Leaves the multicast groups of an endpoint and joins them again, so that the kernel reports the
// membership to the switches anew.
#pragma once

#include <vector>

#include "device/ip/multicast/multicast_queue_pair.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device::ip {

/// The queue pairs of an endpoint; null ones are skipped.
using QueuePairs = std::vector<IpMulticastQueuePair*>;

class GroupRejoin {
 public:
  /// Leaves the groups. If `shared_host` is false, this call joins them again at once; if it is
  /// true, other ranks of this host use the groups, too, and `attempt` joins them at `deadline`.
  Status begin(Instant now, const QueuePairs& pairs, bool shared_host);
  /// Joins the groups; must be called at `deadline`. A failed attempt sets a new deadline.
  Status attempt(Instant now, const QueuePairs& pairs);
  /// The time at which `attempt` must be called; kNever while this rank is in its groups.
  Instant deadline() const { return join_at_; }

 private:
  Instant join_at_ = kNever;
};

}  // namespace tutti::device::ip
