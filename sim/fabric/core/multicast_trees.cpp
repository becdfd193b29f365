#include "sim/fabric/core/multicast_trees.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"

namespace tutti::sim {

MulticastTrees::MulticastTrees(const Topology& topology, const PortTable& ports, std::uint64_t seed)
    : topology_(topology), ports_(ports), seed_(seed) {
  for (std::uint32_t at = 0; at < topology.switches(); ++at) {
    if (topology.level(SwitchId{at}) == topology.levels()) roots_.push_back(SwitchId{at});
  }
}

/// Finds the shortest paths from a root. If two switches have parallel links, a random draw selects
/// one of the links for each group.
MulticastTrees::Paths MulticastTrees::paths_from(std::uint32_t root) const {
  Paths paths{std::vector<LinkId>(topology_.switches(), kNoLink), {root}};
  const std::uint64_t group = trees_.size();
  const auto preference = [&](LinkId link) { return draw(seed_, group, index(link)); };
  for (std::size_t i = 0; i < paths.order.size(); ++i) {
    const std::uint32_t at = paths.order[i];
    for (const LinkId link : topology_.trunks(SwitchId{at})) {
      const std::uint32_t next = topology_.link(link).to;
      LinkId& known = paths.to_switch[next];
      if (next == root) continue;
      if (known == kNoLink) {
        known = link;
        paths.order.push_back(next);
      } else if (topology_.link(known).from == at && preference(link) < preference(known)) {
        known = link;
      }
    }
  }
  return paths;
}

/// Adds the member hosts to the tree and marks their leaves in `needed` as switches of the tree.
Status MulticastTrees::add_members(std::span<const HostId> members, MulticastTree& tree,
                                   std::vector<bool>& needed) const {
  if (members.empty())
    return failure(Code::invalid_argument,
                   "a multicast group has no members: name at least one host");
  tree.hosts.assign(ports_.slices(), 0);
  for (const HostId member : members) {
    if (index(member) >= topology_.hosts()) {
      return failure(Code::invalid_argument,
                     "host {} of a multicast group does not exist: use hosts 0 to {}",
                     index(member), topology_.hosts() - 1);
    }
    const std::uint32_t slice = ports_.slice_of(member);
    const std::uint64_t bit = ports_.slice(slice).bit_of(member);
    if ((tree.hosts[slice] & bit) != 0) {
      return failure(Code::invalid_argument,
                     "host {} is named twice in a multicast group: name each host once",
                     index(member));
    }
    tree.hosts[slice] |= bit;
    needed[index(topology_.leaf_of(member))] = true;
  }
  return {};
}

/// Marks all switches of the tree and returns its top switch: the first switch on the way down from
/// the root that has member hosts or several branches. The switches above the top switch do not
/// belong to the tree.
std::uint32_t MulticastTrees::prune(const MulticastTree& tree, const Paths& paths,
                                    std::vector<bool>& needed) const {
  const std::vector<std::uint32_t>& order = paths.order;
  std::vector<std::uint32_t> branches(topology_.switches());
  for (std::size_t i = order.size(); i-- > 1;) {
    if (!needed[order[i]]) continue;
    const std::uint32_t parent = topology_.link(paths.to_switch[order[i]]).from;
    needed[parent] = true;
    ++branches[parent];
  }
  const auto is_leaf_of_members = [&](std::uint32_t at) {
    return at < topology_.leaves() && std::any_of(tree.hosts.begin() + ports_.first_slice(at),
                                                  tree.hosts.begin() + ports_.first_slice(at + 1),
                                                  [](std::uint64_t hosts) { return hosts != 0; });
  };
  std::uint32_t top = order[0];
  for (std::size_t i = 1; branches[top] == 1 && !is_leaf_of_members(top); ++i) {
    const std::uint32_t below = order[i];
    if (!needed[below] || topology_.link(paths.to_switch[below]).from != top) continue;
    needed[top] = false;
    top = below;
  }
  return top;
}

Result<GroupId> MulticastTrees::create(std::span<const HostId> members, TreeChoice choice) {
  MulticastTree tree;
  std::vector<bool> needed(topology_.switches());
  if (const Status added = add_members(members, tree, needed); !added) return added;
  const std::uint64_t drawn =
      choice.root == TreeChoice::kByGroup ? draw(seed_, trees_.size()) : choice.root;
  const std::uint32_t root = index(roots_[drawn % roots_.size()]);
  const Paths paths = paths_from(root);
  for (std::uint32_t leaf = 0; leaf < topology_.leaves(); ++leaf) {
    if (needed[leaf] && leaf != root && paths.to_switch[leaf] == kNoLink) {
      return failure(Code::invalid_argument,
                     "no path leads from switch {}, the root of a multicast tree, to leaf switch "
                     "{}: choose another root or add cables",
                     root, leaf);
    }
  }
  const std::uint32_t top = prune(tree, paths, needed);
  tree.first_links.assign(topology_.switches() + 1, 0);
  const auto for_each_edge = [&](const auto& visit) {
    for (const std::uint32_t at : paths.order) {
      if (at == top || !needed[at] || paths.to_switch[at] == kNoLink) continue;
      visit(paths.to_switch[at]);
      visit(topology_.reverse(paths.to_switch[at]));
    }
  };
  for_each_edge([&](LinkId link) { ++tree.first_links[topology_.link(link).from + 1]; });
  for (std::uint32_t at = 0; at < topology_.switches(); ++at) {
    tree.first_links[at + 1] += tree.first_links[at];
  }
  tree.links.resize(tree.first_links.back());
  std::vector<std::uint32_t> next(tree.first_links.begin(), tree.first_links.end() - 1);
  for_each_edge([&](LinkId link) { tree.links[next[topology_.link(link).from]++] = link; });
  trees_.push_back(std::move(tree));
  return static_cast<GroupId>(trees_.size() - 1);
}

const std::vector<LinkId>& MulticastTrees::towards(std::uint32_t group, HostId destination) {
  MulticastTree& tree = trees_[group];
  const std::uint32_t leaf = index(topology_.leaf_of(destination));
  if (tree.towards.empty()) tree.towards.resize(topology_.leaves());
  std::vector<LinkId>& links = tree.towards[leaf];
  if (!links.empty()) return links;
  links.assign(topology_.switches(), kNoLink);
  std::vector<std::uint32_t> reached{leaf};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const std::uint32_t at = reached[i];
    for (const LinkId link : tree.links_of(SwitchId{at})) {
      if (link == links[at]) continue;
      const std::uint32_t next = topology_.link(link).to;
      links[next] = topology_.reverse(link);
      reached.push_back(next);
    }
  }
  return links;
}

std::uint32_t MulticastTrees::contributions_at(SwitchId at, const Packet& packet,
                                               LinkId towards_destination) const {
  const MulticastTree& tree = trees_[packet.flow];
  auto count = static_cast<std::uint32_t>(tree.links_of(at).size());
  if (towards_destination != kNoLink) --count;
  if (index(at) >= topology_.leaves()) return count;
  for (std::uint32_t s = ports_.first_slice(index(at)); s < ports_.first_slice(index(at) + 1);
       ++s) {
    const std::uint64_t own = ports_.slice(s).bit_of(HostId{packet.target});
    count += static_cast<std::uint32_t>(std::popcount(tree.hosts[s] & ~own));
  }
  return count;
}

std::size_t MulticastTrees::bytes() const {
  std::size_t bytes = 0;
  for (const MulticastTree& tree : trees_) {
    bytes += tree.first_links.size() * 4 + tree.links.size() * 4 + tree.hosts.size() * 8;
  }
  return bytes;
}

}  // namespace tutti::sim
