// The multicast trees of a fabric's groups: the shortest paths from one switch to all members'
// leaves, pruned. All members send into the same tree, at whatever switch they join it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/fabric/core/port_table.hpp"
#include "sim/fabric/fabric_types.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::sim {

/// A tree: the links of each switch to other switches, and the member hosts of each leaf slice.
struct MulticastTree {
  std::vector<std::uint32_t> first_links;  ///< by switch, and the end
  std::vector<LinkId> links;
  std::vector<std::uint64_t> hosts;
  /// For each leaf of a reduction's destination, created on demand: the link of each tree switch
  /// towards that leaf.
  std::vector<std::vector<LinkId>> towards;

  /// Valid as long as the group, also after others are created.
  std::span<const LinkId> links_of(SwitchId at) const {
    const std::uint32_t first = first_links[index(at)];
    return {links.data() + first, first_links[index(at) + 1] - first};
  }
};

class MulticastTrees {
 public:
  /// `topology` and `ports` outlive it. `seed` is that of the draws between equal trees.
  MulticastTrees(const Topology& topology, const PortTable& ports, std::uint64_t seed);

  Result<GroupId> create(std::span<const HostId> members, TreeChoice choice);
  /// Number of trees that TreeChoice::root can name.
  std::uint32_t roots() const { return static_cast<std::uint32_t>(roots_.size()); }
  /// The tree of group number `group`.
  const MulticastTree& operator[](std::uint32_t group) const { return trees_[group]; }

  /// For each switch of a group's tree, the link towards a destination's leaf; kNoLink at that leaf
  /// and outside the tree.
  const std::vector<LinkId>& towards(std::uint32_t group, HostId destination);
  /// The number of contributions to a packet that a switch waits for: one from each tree neighbour
  /// except that towards the destination, and one from each member host except the destination.
  std::uint32_t contributions_at(SwitchId at, const Packet& packet,
                                 LinkId towards_destination) const;

  std::size_t bytes() const;

 private:
  /// Shortest paths from one switch.
  struct Paths {
    std::vector<LinkId> to_switch;     ///< the link that leads to each switch
    std::vector<std::uint32_t> order;  ///< the switches by distance
  };
  Status add_members(std::span<const HostId> members, MulticastTree& tree,
                     std::vector<bool>& needed) const;
  Paths paths_from(std::uint32_t root) const;
  std::uint32_t prune(const MulticastTree& tree, const Paths& paths,
                      std::vector<bool>& needed) const;

  const Topology& topology_;
  const PortTable& ports_;
  const std::uint64_t seed_;
  std::vector<SwitchId> roots_;
  std::vector<MulticastTree> trees_;  ///< by GroupId
};

}  // namespace tutti::sim
