// The ports of a fabric's links. Host ports of one leaf share their state while it is equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/fabric/fabric_types.hpp"
#include "sim/fabric/huge_pages.hpp"
#include "sim/fabric/time.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::sim {

/// One direction of a cable: when it is free again, and its counters.
struct alignas(64) FabricPort {
  Picoseconds busy_until{};
  Picoseconds train_until{-1};  ///< instant at which the last packet of a train is ready
  TrafficCount tx;
  TrafficCount rx;
};
static_assert(sizeof(FabricPort) == 64);

/// Up to 64 hosts of a leaf. All ports in `followers` share `busy_until` and `train_until`, and
/// the slice's counts add to each port's own.
struct LeafSlice {
  std::uint32_t first_host = 0;
  std::uint64_t followers = 0;
  FabricPort common;

  /// The bit of a host, or 0 if it is on another slice.
  std::uint64_t bit_of(HostId host) const {
    const std::uint32_t bit = index(host) - first_host;
    return bit < 64 ? std::uint64_t{1} << bit : 0;
  }
};

class PortTable {
 public:
  /// `topology` outlives it.
  explicit PortTable(const Topology& topology);

  /// The port's own part of its state.
  FabricPort& operator[](LinkId link) { return ports_[index(link)]; }
  /// The port for traffic of its own: it shares nothing from now on.
  FabricPort& alone(LinkId link) {
    if (shares(link)) leave_slice(link);
    return ports_[index(link)];
  }
  Picoseconds busy_until(LinkId link) const {
    return shares(link) ? slices_[slice_at(link)].common.busy_until
                        : ports_[index(link)].busy_until;
  }
  TrafficCount tx(LinkId link) const { return counted(link, &FabricPort::tx); }
  TrafficCount rx(LinkId link) const { return counted(link, &FabricPort::rx); }
  /// Holds new packets of a port until `until`.
  void pause(LinkId link, Picoseconds until);

  std::uint32_t slices() const { return static_cast<std::uint32_t>(slices_.size()); }
  LeafSlice& slice(std::uint32_t at) { return slices_[at]; }
  const LeafSlice& slice(std::uint32_t at) const { return slices_[at]; }
  /// The slices of a leaf are first_slice(leaf) to first_slice(leaf + 1) - 1.
  std::uint32_t first_slice(std::uint32_t leaf) const { return first_slices_[leaf]; }
  std::uint32_t slice_of(HostId host) const {
    const SwitchId leaf = topology_.leaf_of(host);
    return first_slices_[index(leaf)] + (index(host) - index(topology_.first_host(leaf))) / 64;
  }
  /// Makes followers of those of `hosts` on whose ports a packet that is ready at `ready` starts at
  /// one instant, and of no other.
  void share(LeafSlice& slice, std::uint64_t hosts, Picoseconds ready);

  std::size_t bytes() const;

 private:
  HostId host_at(LinkId link) const { return HostId{index(link) - topology_.hosts()}; }
  std::uint32_t slice_at(LinkId link) const { return slice_of(host_at(link)); }
  bool shares(LinkId link) const {
    if (!any_shared_ || !topology_.is_host_down(link)) return false;
    const LeafSlice& slice = slices_[slice_at(link)];
    return (slice.followers & slice.bit_of(host_at(link))) != 0;
  }
  TrafficCount counted(LinkId link, TrafficCount FabricPort::*direction) const;
  void leave(LeafSlice& slice, std::uint64_t hosts);
  void leave_slice(LinkId link);
  void join(LeafSlice& slice, std::uint32_t bit);

  const Topology& topology_;
  std::vector<FabricPort, HugePages<FabricPort>> ports_;
  std::vector<LeafSlice> slices_;
  std::vector<std::uint32_t> first_slices_;  ///< by leaf, and the end
  bool any_shared_ = false;                  ///< a port has shared state
};

}  // namespace tutti::sim
