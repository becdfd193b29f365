#include "sim/device/path_faults.hpp"

#include <algorithm>

namespace tutti::device::sim {

using tutti::sim::HostId;

bool PathFaults::loses(HostId from, HostId to, std::uint32_t wire_bytes, Instant now) const {
  return std::any_of(faults_.begin(), faults_.end(), [&](const PathFault& one) {
    const bool over = one.length.count() != 0 && now >= one.at + one.length;
    return one.from == from && one.to == to && now >= one.at && !over &&
           wire_bytes > one.above_bytes;
  });
}

const Replay* PathFaults::recorded(HostId from, HostId to) {
  if (replays_.empty()) return nullptr;
  const std::uint32_t number = arrived_[{from, to}]++;
  const auto replay = std::find_if(replays_.begin(), replays_.end(), [&](const Replay& one) {
    return one.from == from && one.to == to && one.number == number;
  });
  return replay == replays_.end() ? nullptr : &*replay;
}

}  // namespace tutti::device::sim
