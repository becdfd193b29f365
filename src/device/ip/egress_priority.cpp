#include "device/ip/egress_priority.hpp"

#include <map>
#include <mutex>

namespace tutti::device::ip {

std::shared_ptr<EgressPriority> EgressPriority::of(unsigned interface_index) {
  static std::mutex mutex;
  static std::map<unsigned, std::weak_ptr<EgressPriority>> known;
  const std::lock_guard lock(mutex);
  std::weak_ptr<EgressPriority>& place = known[interface_index];
  auto egress = place.lock();
  if (!egress) {
    egress = std::make_shared<EgressPriority>();
    place = egress;
  }
  return egress;
}

}  // namespace tutti::device::ip
