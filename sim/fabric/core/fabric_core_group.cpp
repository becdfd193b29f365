// Multicast trees: the shortest paths from one switch to all members' leaves, pruned. All members
// send into the same tree, at whatever switch they join it.
#include "base/error.hpp"
#include "sim/fabric/core/fabric_core.hpp"

namespace tutti::sim {

/// Computes shortest paths from `root` to every switch: the link that leads to it, and the switches
/// by distance. The group's draw selects one of parallel links.
void FabricCore::grow_tree(std::uint32_t root, std::vector<LinkId>& to_switch,
                           std::vector<std::uint32_t>& order) const {
  to_switch.assign(topology_.switches(), kNoLink);
  order.assign(1, root);
  const std::uint64_t group = groups_.size();
  const auto preference = [&](LinkId link) {
    return draw(hash_seed_, group, tutti::sim::index(link));
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const LinkId link : topology_.trunks(static_cast<SwitchId>(order[i]))) {
      const std::uint32_t next = topology_.link(link).to;
      LinkId& known = to_switch[next];
      if (next == root) continue;
      if (known == kNoLink) {
        known = link;
        order.push_back(next);
      } else if (topology_.link(known).from == order[i] && preference(link) < preference(known)) {
        known = link;
      }
    }
  }
}

/// Sets the members' bits and marks their leaves as needed.
Status FabricCore::add_members(std::span<const HostId> members, Group& group,
                               std::vector<bool>& needed) const {
  if (members.empty())
    return failure(Code::invalid_argument, "a group has no member: name at least one");
  group.hosts.assign(slices_.size(), 0);
  for (const HostId member : members) {
    if (tutti::sim::index(member) >= topology_.hosts()) {
      return failure(Code::invalid_argument,
                     "host {} of a group does not exist: there are {} hosts",
                     tutti::sim::index(member), topology_.hosts());
    }
    const std::uint32_t slice = slice_of(member);
    const std::uint64_t bit = std::uint64_t{1}
                              << (tutti::sim::index(member) - slices_[slice].first_host);
    if ((group.hosts[slice] & bit) != 0) {
      return failure(Code::invalid_argument, "host {} is named twice in a group",
                     tutti::sim::index(member));
    }
    group.hosts[slice] |= bit;
    needed[tutti::sim::index(topology_.leaf_of(member))] = true;
  }
  return {};
}

Result<GroupId> FabricCore::create_group(std::span<const HostId> members, TreeChoice choice) {
  Group group;
  std::vector<bool> needed(topology_.switches());
  if (const Status added = add_members(members, group, needed); !added) return added;
  const std::uint64_t drawn =
      choice.root == TreeChoice::kByGroup ? draw(hash_seed_, groups_.size()) : choice.root;
  std::uint32_t top = tutti::sim::index(tree_roots_[drawn % tree_roots_.size()]);
  std::vector<LinkId> to_switch;
  std::vector<std::uint32_t> order;
  grow_tree(top, to_switch, order);
  for (std::uint32_t leaf = 0; leaf < topology_.leaves(); ++leaf) {
    if (needed[leaf] && leaf != top && to_switch[leaf] == kNoLink) {
      return failure(Code::invalid_argument, "no tree from switch {} reaches leaf {}", top, leaf);
    }
  }
  std::vector<std::uint32_t> branches(topology_.switches());
  for (std::size_t i = order.size(); i-- > 1;) {
    if (!needed[order[i]]) continue;
    const std::uint32_t parent = topology_.link(to_switch[order[i]]).from;
    needed[parent] = true;
    ++branches[parent];
  }
  // A top without own members and with a single branch is not part of the tree.
  const auto is_leaf_of_members = [&](std::uint32_t at) {
    return at < topology_.leaves() && std::any_of(group.hosts.begin() + first_slices_[at],
                                                  group.hosts.begin() + first_slices_[at + 1],
                                                  [](std::uint64_t hosts) { return hosts != 0; });
  };
  for (std::size_t i = 1; branches[top] == 1 && !is_leaf_of_members(top); ++i) {
    const std::uint32_t below = order[i];
    if (!needed[below] || topology_.link(to_switch[below]).from != top) continue;
    needed[top] = false;
    top = below;
  }
  group.first_links.assign(topology_.switches() + 1, 0);
  const auto for_each_edge = [&](const auto& visit) {
    for (const std::uint32_t at : order) {
      if (at == top || !needed[at] || to_switch[at] == kNoLink) continue;
      visit(to_switch[at]);
      visit(topology_.reverse(to_switch[at]));
    }
  };
  for_each_edge([&](LinkId link) { ++group.first_links[topology_.link(link).from + 1]; });
  for (std::uint32_t at = 0; at < topology_.switches(); ++at) {
    group.first_links[at + 1] += group.first_links[at];
  }
  group.links.resize(group.first_links.back());
  std::vector<std::uint32_t> next(group.first_links.begin(), group.first_links.end() - 1);
  for_each_edge([&](LinkId link) { group.links[next[topology_.link(link).from]++] = link; });
  groups_.push_back(std::move(group));
  return static_cast<GroupId>(groups_.size() - 1);
}

}  // namespace tutti::sim
