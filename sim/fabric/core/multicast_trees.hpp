// The multicast trees of a fabric's groups. A tree consists of shortest paths from one switch to
// the leaves of all members. All members send into the same tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/fabric/core/port_table.hpp"
#include "sim/fabric/fabric_types.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::sim {

/// A multicast tree: the links of each switch to other switches of the tree, and the member hosts
/// of each leaf slice.
struct MulticastTree {
  /// For each switch, the index in `links` of its first link; the last entry is the size of
  /// `links`.
  std::vector<std::uint32_t> first_links;
  std::vector<LinkId> links;
  std::vector<std::uint64_t> hosts;
  /// `towards[leaf][at]` is the link of the tree that leads from switch `at` towards leaf switch
  /// `leaf`. The links towards a leaf are computed for the first reduction whose destination is on
  /// this leaf.
  std::vector<std::vector<LinkId>> towards;

  /// The links of a switch to other switches of the tree. The span stays valid when further groups
  /// are created.
  std::span<const LinkId> links_of(SwitchId at) const {
    const std::uint32_t first = first_links[index(at)];
    return {links.data() + first, first_links[index(at) + 1] - first};
  }
};

class MulticastTrees {
 public:
  /// `topology` and `ports` must outlive this object. `seed` is the seed of the draws that choose
  /// between equally good trees.
  MulticastTrees(const Topology& topology, const PortTable& ports, std::uint64_t seed);

  Result<GroupId> create(std::span<const HostId> members, TreeChoice choice);
  /// Number of switches that can be the root of a tree. TreeChoice::root numbers them from 0.
  std::uint32_t roots() const { return static_cast<std::uint32_t>(roots_.size()); }
  /// The tree of the group with index `group`.
  const MulticastTree& operator[](std::uint32_t group) const { return trees_[group]; }

  /// For each switch of a group's tree, the link of the tree that leads towards the leaf of
  /// `destination`. It is kNoLink for this leaf and for switches outside the tree.
  const std::vector<LinkId>& towards(std::uint32_t group, HostId destination);
  /// The number of contributions that a switch adds up for one packet: one from each neighbour in
  /// the tree except the next switch towards the destination, and one from each member host of the
  /// switch except the destination.
  std::uint32_t contributions_at(SwitchId at, const Packet& packet,
                                 LinkId towards_destination) const;

  std::size_t bytes() const;

 private:
  /// Shortest paths from one switch.
  struct Paths {
    std::vector<LinkId> to_switch;     ///< for each switch, the last link of the path to it
    std::vector<std::uint32_t> order;  ///< the switches in order of distance
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
  std::vector<MulticastTree> trees_;  ///< tree of each group, indexed by GroupId
};

}  // namespace tutti::sim
