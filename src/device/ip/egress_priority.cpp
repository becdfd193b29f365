#include "device/ip/egress_priority.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "device/ip/socket.hpp"
#include "device/posix/home_process.hpp"

namespace tutti::device::ip {

namespace {

/// If an interface also serves a higher priority, a socket may have at most this many bytes in the
/// queue of the interface. This number keeps a link of 1 Gbit/s busy between two polls.
constexpr std::uint64_t kShortQueueBytes = 128 * 1024;

}  // namespace

std::shared_ptr<EgressPriority> EgressPriority::of(unsigned interface_index) {
  static std::mutex mutex;
  // The keys of `known` contain the fork generation, because a forked child must not see the claims
  // of the communicators that it inherited.
  static std::map<std::pair<std::uint32_t, unsigned>, std::weak_ptr<EgressPriority>> known;
  const std::lock_guard lock(mutex);
  std::weak_ptr<EgressPriority>& place = known[{HomeProcess().generation(), interface_index}];
  auto egress = place.lock();
  if (!egress) {
    egress = std::make_shared<EgressPriority>();
    place = egress;
  }
  return egress;
}

std::optional<std::uint64_t> EgressPriority::allowance(Urgency urgency, int socket) const {
  if (claimed_above(urgency)) return 0;
  // A multicast socket needs no limit on its unsent bytes, because its send buffer is short
  // already.
  if (urgency.multicast || !priorities_.any_above(urgency.priority)) return std::nullopt;
  return kShortQueueBytes - std::min(kShortQueueBytes, unsent_bytes(socket));
}

}  // namespace tutti::device::ip
