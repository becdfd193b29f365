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

/// The port of a directed link: the instant until which it is busy, and its counters.
struct alignas(64) FabricPort {
  Picoseconds busy_until{};
  /// Instant from which the last packet of the latest train on this port may be sent.
  Picoseconds train_until{-1};
  TrafficCount tx;
  TrafficCount rx;
};
static_assert(sizeof(FabricPort) == 64);

/// Up to 64 hosts of a leaf. The ports of the hosts in `followers` share the times in `common`.
/// Each of these ports adds the counts in `common` to its own counts.
struct LeafSlice {
  std::uint32_t first_host = 0;
  std::uint64_t followers = 0;
  FabricPort common;

  /// The bit of a host in `followers`; 0 if the host belongs to another slice.
  std::uint64_t bit_of(HostId host) const {
    const std::uint32_t bit = index(host) - first_host;
    return bit < 64 ? std::uint64_t{1} << bit : 0;
  }
};

class PortTable {
 public:
  /// `topology` must outlive this object.
  explicit PortTable(const Topology& topology);

  /// The state that the port of a link does not share with other ports.
  FabricPort& operator[](LinkId link) { return ports_[index(link)]; }
  /// Makes the port of a link stop sharing its state with other ports, and returns the port.
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
  /// Prevents a port from starting a further packet before `until`.
  void pause(LinkId link, Picoseconds until);

  std::uint32_t slices() const { return static_cast<std::uint32_t>(slices_.size()); }
  LeafSlice& slice(std::uint32_t at) { return slices_[at]; }
  const LeafSlice& slice(std::uint32_t at) const { return slices_[at]; }
  /// Index of the first slice of a leaf. The leaf's last slice is first_slice(leaf + 1) - 1.
  std::uint32_t first_slice(std::uint32_t leaf) const { return first_slices_[leaf]; }
  std::uint32_t slice_of(HostId host) const {
    const SwitchId leaf = topology_.leaf_of(host);
    return first_slices_[index(leaf)] + (index(host) - index(topology_.first_host(leaf))) / 64;
  }
  /// Decides which ports of a slice share their state for a packet to `hosts` that may start at
  /// `ready`. First the ports of hosts outside `hosts` stop sharing; if no sharing port remains,
  /// the port of the first host in `hosts` starts to share. Then every other port of `hosts` joins
  /// if the packet would start on it at the same instant as on the sharing ports.
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
  /// For each leaf, the index of its first slice; the last entry is the number of all slices.
  std::vector<std::uint32_t> first_slices_;
  bool any_shared_ = false;  ///< whether any port has ever shared its state
};

}  // namespace tutti::sim
