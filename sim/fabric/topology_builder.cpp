#include "sim/fabric/topology_builder.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace tutti::sim {
namespace {

constexpr std::uint16_t kUnreached = 0xffff;
constexpr std::uint32_t kAnyGroup = 0xffff'ffffu;

}  // namespace

std::uint8_t TopologyBuilder::add_spec(const LinkSpec& spec) {
  const auto known = std::find(made_.specs_.begin(), made_.specs_.end(), spec);
  const auto number = static_cast<std::uint8_t>(known - made_.specs_.begin());
  if (known == made_.specs_.end()) made_.specs_.push_back(spec);
  return number;
}

void TopologyBuilder::add_hosts(std::span<const std::uint32_t> hosts_of_leaf, std::uint32_t uniform,
                                std::uint8_t spec) {
  made_.leaves_ = static_cast<std::uint32_t>(hosts_of_leaf.size());
  made_.hosts_per_leaf_ = uniform;
  made_.first_hosts_.assign(1, 0);
  for (const std::uint32_t hosts : hosts_of_leaf) {
    made_.first_hosts_.push_back(made_.first_hosts_.back() + hosts);
  }
  made_.hosts_ = made_.first_hosts_.back();
  std::vector<std::uint32_t> leaf_of;
  for (std::uint32_t leaf = 0; leaf < made_.leaves_; ++leaf) {
    leaf_of.insert(leaf_of.end(), hosts_of_leaf[leaf], leaf);
  }
  for (std::uint32_t host = 0; host < made_.hosts_; ++host) {
    add_link(host, leaf_of[host], LinkClass::host_up, spec);
  }
  for (std::uint32_t host = 0; host < made_.hosts_; ++host) {
    add_link(leaf_of[host], host, LinkClass::host_down, spec);
  }
  for (std::uint32_t link = 0; link < 2 * made_.hosts_; ++link) {
    const std::uint32_t other = link < made_.hosts_ ? link + made_.hosts_ : link - made_.hosts_;
    made_.reverse_.push_back(static_cast<LinkId>(other));
  }
}

void TopologyBuilder::set_switches(std::uint32_t switches) { made_.positions_.resize(switches); }

void TopologyBuilder::set_level(std::uint32_t at, std::uint32_t level) {
  made_.positions_[at].level = level;
  made_.levels_ = std::max(made_.levels_, level);
}

void TopologyBuilder::add_link(std::uint32_t from, std::uint32_t to, LinkClass link_class,
                               std::uint8_t spec) {
  made_.links_.push_back({from, to, link_class, spec});
}

void TopologyBuilder::add_cable(std::uint32_t a, std::uint32_t b, std::uint8_t spec) {
  const std::uint32_t level_a = made_.positions_[a].level;
  const std::uint32_t level_b = made_.positions_[b].level;
  const std::uint32_t low = std::min(level_a, level_b);
  const auto class_from = [&](std::uint32_t from, std::uint32_t to) {
    if (from == to) return LinkClass::side;
    return from < to ? up_class(low) : down_class(low);
  };
  const auto first = static_cast<std::uint32_t>(made_.links_.size());
  add_link(a, b, class_from(level_a, level_b), spec);
  add_link(b, a, class_from(level_b, level_a), spec);
  made_.reverse_.push_back(static_cast<LinkId>(first + 1));
  made_.reverse_.push_back(static_cast<LinkId>(first));
}

/// Lists every switch's links to other switches.
void TopologyBuilder::list_trunks() {
  made_.first_trunks_.assign(made_.switches() + 1, 0);
  for (std::uint32_t link = 2 * made_.hosts_; link < made_.links(); ++link) {
    ++made_.first_trunks_[made_.links_[link].from + 1];
  }
  for (std::uint32_t at = 0; at < made_.switches(); ++at) {
    made_.first_trunks_[at + 1] += made_.first_trunks_[at];
  }
  made_.trunks_.resize(made_.links() - 2 * made_.hosts_);
  std::vector<std::uint32_t> next(made_.first_trunks_.begin(), made_.first_trunks_.end() - 1);
  for (std::uint32_t link = 2 * made_.hosts_; link < made_.links(); ++link) {
    made_.trunks_[next[made_.links_[link].from]++] = static_cast<LinkId>(link);
  }
}

/// Numbers the switches and links so that the route to a host can be computed from the host's
/// number. The links up from a switch have consecutive numbers, and the links from a switch to one
/// of its children have consecutive numbers. In each level, the `copies` switches from number s *
/// copies on are the tops of subtree s.
void TopologyBuilder::number_tree(const FatTreeShape& shape) {
  const auto levels = static_cast<std::uint32_t>(shape.down.size());
  std::uint32_t subtrees = 1;
  for (std::uint32_t i = 1; i < levels; ++i) subtrees *= shape.down[i];
  std::uint32_t copies = 1;
  std::uint32_t first_switch = 0;
  const std::uint8_t trunk = add_spec(shape.trunk);
  for (std::uint32_t level = 1; level < levels; ++level) {
    const std::uint32_t parents = shape.up[level];
    const std::uint32_t parallel = shape.parallel.empty() ? 1 : shape.parallel[level];
    const std::uint32_t children = shape.down[level];
    const std::uint32_t switches = subtrees * copies;
    const std::uint32_t first_parent = first_switch + switches;
    const std::uint32_t first_up = made_.links();
    const std::uint32_t first_down = first_up + switches * parents * parallel;
    const std::uint32_t total = first_down + switches * parents * parallel;
    made_.links_.resize(total);
    made_.reverse_.resize(total);
    for (std::uint32_t at = 0; at < switches; ++at) {
      const std::uint32_t subtree = at / copies;
      made_.positions_[first_switch + at].first_up = first_up + at * parents * parallel;
      for (std::uint32_t i = 0; i < parents * parallel; ++i) {
        const std::uint32_t copy = at % copies + copies * (i / parallel);
        const std::uint32_t parent = subtree / children * copies * parents + copy;
        const std::uint32_t up = first_up + at * parents * parallel + i;
        const std::uint32_t down =
            first_down + (parent * children + subtree % children) * parallel + i % parallel;
        made_.links_[up] = {first_switch + at, first_parent + parent, up_class(level), trunk};
        made_.links_[down] = {first_parent + parent, first_switch + at, down_class(level), trunk};
        made_.reverse_[up] = static_cast<LinkId>(down);
        made_.reverse_[down] = static_cast<LinkId>(up);
      }
    }
    subtrees /= children;
    copies *= parents;
    for (std::uint32_t parent = 0; parent < subtrees * copies; ++parent) {
      made_.positions_[first_parent + parent].first_down =
          first_down + parent * children * parallel;
    }
    first_switch = first_parent;
  }
}

Topology TopologyBuilder::finish_tree(const FatTreeShape& shape) {
  const auto levels = static_cast<std::uint32_t>(shape.down.size());
  number_tree(shape);
  std::uint32_t at = 0;
  std::uint32_t copies = 1;
  std::uint32_t hosts_below = 1;
  for (std::uint32_t level = 1; level <= levels; ++level) {
    std::uint32_t subtrees = 1;
    for (std::uint32_t i = level; i < levels; ++i) subtrees *= shape.down[i];
    if (level > 1) copies *= shape.up[level - 1];
    for (std::uint32_t i = 0; i < subtrees * copies; ++i, ++at) {
      made_.positions_[at].level = level;
      made_.positions_[at].subtree = i / copies;
    }
    Topology::Level arithmetic;
    arithmetic.child_hosts_below = hosts_below;
    hosts_below *= shape.down[level - 1];
    arithmetic.hosts_below = hosts_below;
    arithmetic.children = shape.down[level - 1];
    arithmetic.parallel = shape.parallel.empty() ? 1 : shape.parallel[level - 1];
    if (level < levels) {
      arithmetic.up_links = shape.up[level] * (shape.parallel.empty() ? 1 : shape.parallel[level]);
    }
    made_.level_.push_back(arithmetic);
  }
  made_.levels_ = levels;
  made_.computed_ = true;
  list_trunks();
  return std::move(made_);
}

/// The number of hops from every switch to the nearest target. If `within_group` names a group,
/// paths stay in that group.
TopologyBuilder::Distances TopologyBuilder::distances(std::span<const std::uint32_t> targets,
                                                      std::uint32_t within_group) const {
  Distances hops(made_.switches(), kUnreached);
  std::vector<std::uint32_t> reached(targets.begin(), targets.end());
  for (const std::uint32_t target : targets) hops[target] = 0;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (const LinkId link : made_.trunks(static_cast<SwitchId>(reached[i]))) {
      const std::uint32_t neighbour = made_.link(link).to;
      const bool outside = within_group != kAnyGroup && made_.group_of_[neighbour] != within_group;
      if (outside || hops[neighbour] != kUnreached) continue;
      hops[neighbour] = static_cast<std::uint16_t>(hops[reached[i]] + 1);
      reached.push_back(neighbour);
    }
  }
  return hops;
}

Status TopologyBuilder::fill_routes() {
  const std::uint32_t groups = made_.groups_;
  std::vector<std::vector<std::uint32_t>> members(groups);
  for (std::uint32_t at = 0; at < made_.switches(); ++at) {
    members[made_.group_of_[at]].push_back(at);
  }
  std::vector<Distances> to_leaf(made_.leaves_);
  for (std::uint32_t leaf = 0; leaf < made_.leaves_; ++leaf) {
    to_leaf[leaf] = distances(std::span(&leaf, 1), made_.group_of_[leaf]);
  }
  std::vector<Distances> to_group(groups);
  for (std::uint32_t g = 0; groups > 1 && g < groups; ++g) {
    to_group[g] = distances(members[g], kAnyGroup);
  }
  made_.first_routes_.assign(1, 0);
  for (std::uint32_t at = 0; at < made_.switches(); ++at) {
    const std::uint32_t own = made_.group_of_[at];
    for (std::uint32_t region = 0; region < made_.regions_; ++region) {
      const bool local = region < made_.leaves_per_group_;
      const std::uint32_t group = local ? own : region - made_.leaves_per_group_;
      const std::uint32_t leaf = own * made_.leaves_per_group_ + region;
      const bool wanted = local ? leaf != at : group != own;
      if (wanted) {
        const Distances& hops = local ? to_leaf[leaf] : to_group[group];
        if (hops[at] == kUnreached) {
          return failure(Code::invalid_argument,
                         "switch {} has no path to {} {}: add cables between them", at,
                         local ? "leaf switch" : "group", local ? leaf : group);
        }
        for (const LinkId link : made_.trunks(static_cast<SwitchId>(at))) {
          if (hops[made_.link(link).to] + 1 == hops[at]) made_.routes_.push_back(link);
        }
      }
      made_.first_routes_.push_back(static_cast<std::uint32_t>(made_.routes_.size()));
    }
  }
  return {};
}

Result<Topology> TopologyBuilder::finish_tables(std::vector<std::uint32_t> group_of,
                                                std::uint32_t groups) {
  made_.group_of_ = std::move(group_of);
  made_.groups_ = groups;
  made_.leaves_per_group_ = made_.leaves_ / groups;
  made_.regions_ = made_.leaves_per_group_ + (groups > 1 ? groups : 0);
  list_trunks();
  if (const Status filled = fill_routes(); !filled) return filled;
  return std::move(made_);
}

}  // namespace tutti::sim
