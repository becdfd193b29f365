#include "device/ip/egress_priority.hpp"

#include <map>
#include <mutex>

namespace tutti::device::ip {

std::shared_ptr<Injection> Injection::of(unsigned interface_index) {
  static std::mutex mutex;
  static std::map<unsigned, std::weak_ptr<Injection>> known;
  const std::lock_guard lock(mutex);
  std::weak_ptr<Injection>& place = known[interface_index];
  auto injection = place.lock();
  if (!injection) {
    injection = std::make_shared<Injection>();
    place = injection;
  }
  return injection;
}

}  // namespace tutti::device::ip
