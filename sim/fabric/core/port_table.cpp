#include "sim/fabric/core/port_table.hpp"

#include <algorithm>
#include <bit>

namespace tutti::sim {

PortTable::PortTable(const Topology& topology) : topology_(topology), ports_(topology.links()) {
  first_slices_.push_back(0);
  for (std::uint32_t leaf = 0; leaf < topology.leaves(); ++leaf) {
    const std::uint32_t first = index(topology.first_host(SwitchId{leaf}));
    for (std::uint32_t i = 0; i < topology.host_count(SwitchId{leaf}); i += 64) {
      slices_.emplace_back().first_host = first + i;
    }
    first_slices_.push_back(slices());
  }
}

void PortTable::pause(LinkId link, Picoseconds until) {
  Picoseconds& busy = alone(link).busy_until;
  busy = std::max(busy, until);
}

TrafficCount PortTable::counted(LinkId link, TrafficCount FabricPort::*direction) const {
  TrafficCount count = ports_[index(link)].*direction;
  if (shares(link)) count += slices_[slice_at(link)].common.*direction;
  return count;
}

void PortTable::leave_slice(LinkId link) {
  LeafSlice& slice = slices_[slice_at(link)];
  leave(slice, slice.bit_of(host_at(link)));
}

void PortTable::leave(LeafSlice& slice, std::uint64_t hosts) {
  for (std::uint64_t rest = hosts; rest != 0; rest &= rest - 1) {
    const std::uint32_t host =
        slice.first_host + static_cast<std::uint32_t>(std::countr_zero(rest));
    FabricPort& port = ports_[topology_.hosts() + host];
    port.busy_until = slice.common.busy_until;
    port.train_until = slice.common.train_until;
    port.tx += slice.common.tx;
    port.rx += slice.common.rx;
  }
  slice.followers &= ~hosts;
}

/// Lets a port share the slice's state. From then on the port stores its counts minus the slice's
/// counts; these unsigned differences may wrap around.
void PortTable::join(LeafSlice& slice, std::uint32_t bit) {
  FabricPort& port = ports_[topology_.hosts() + slice.first_host + bit];
  port.tx -= slice.common.tx;
  port.rx -= slice.common.rx;
  slice.followers |= std::uint64_t{1} << bit;
  any_shared_ = true;
}

void PortTable::share(LeafSlice& slice, std::uint64_t hosts, Picoseconds ready) {
  const std::uint32_t first_link = topology_.hosts() + slice.first_host;
  leave(slice, slice.followers & ~hosts);
  if (slice.followers == 0) {
    const auto first = static_cast<std::uint32_t>(std::countr_zero(hosts));
    const FabricPort& port = ports_[first_link + first];
    slice.common.busy_until = port.busy_until;
    slice.common.train_until = port.train_until;
    join(slice, first);
  }
  const Picoseconds start = std::max(ready, slice.common.busy_until);
  for (std::uint64_t rest = hosts & ~slice.followers; rest != 0; rest &= rest - 1) {
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(rest));
    const FabricPort& port = ports_[first_link + bit];
    if (std::max(ready, port.busy_until) != start) continue;
    slice.common.train_until = std::max(slice.common.train_until, port.train_until);
    join(slice, bit);
  }
}

std::size_t PortTable::bytes() const {
  return ports_.size() * sizeof(FabricPort) + slices_.size() * sizeof(LeafSlice);
}

}  // namespace tutti::sim
