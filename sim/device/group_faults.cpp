#include "sim/device/group_faults.hpp"

#include <algorithm>

namespace tutti::device::sim {

bool GroupFaults::loses(tutti::sim::HostId to, Instant joined, Instant now) const {
  return std::any_of(faults_.begin(), faults_.end(), [&](const GroupFault& one) {
    if (one.host != to || now < one.at) return false;
    if (one.length.count() != 0 && now >= one.at + one.length) return false;
    return one.kind == GroupFault::Kind::blocked || joined < one.at;
  });
}

}  // namespace tutti::device::sim
