#include "device/ip/egress_priority.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "device/posix/home_process.hpp"

namespace tutti::device::ip {

std::shared_ptr<EgressPriority> EgressPriority::of(unsigned interface_index) {
  static std::mutex mutex;
  // A child of fork() shares no claim with the communicators that its parent has left in it.
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

}  // namespace tutti::device::ip
