#include "sim/fabric/topology.hpp"

#include <array>

namespace tutti::sim {

const char* to_string(LinkClass link_class) {
  static constexpr std::array<const char*, kLinkClasses> kNames = {
      "host_up", "host_down", "up1", "down1", "up2", "down2", "up3", "down3",
      "up4",     "down4",     "up5", "down5", "up6", "down6", "side"};
  return kNames[static_cast<std::size_t>(link_class)];
}

NextLinks Topology::next_in_table(SwitchId at, HostId destination) const {
  const std::uint32_t leaf = index(leaf_of(destination));
  if (leaf == index(at)) return {host_down(destination), 1};
  const std::uint32_t group = group_of_[leaf];
  const std::uint32_t region =
      group == group_of_[index(at)] ? leaf - group * leaves_per_group_ : leaves_per_group_ + group;
  const std::size_t entry = std::size_t{index(at)} * regions_ + region;
  const std::uint32_t first = first_routes_[entry];
  return NextLinks(std::span(routes_.data() + first, first_routes_[entry + 1] - first));
}

}  // namespace tutti::sim
