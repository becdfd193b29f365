#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "base/error.hpp"
#include "sim/fabric/topology.hpp"
#include "sim/fabric/topology_builder.hpp"

namespace tutti::sim {
namespace {

constexpr std::uint64_t kMaxLinks = std::uint64_t{1} << 31;
constexpr std::uint32_t kMaxLevels = 6;

/// The product of numbers, or kMaxLinks + 1 if it is greater than kMaxLinks.
std::uint64_t bounded_product(std::initializer_list<std::uint32_t> numbers) {
  std::uint64_t product = 1;
  for (const std::uint32_t number : numbers) product = std::min(product * number, kMaxLinks + 1);
  return product;
}

Status check_dragonfly(const DragonflyShape& shape) {
  const std::uint64_t ports = std::uint64_t{shape.spines_per_group} * shape.global_ports_per_spine;
  if (shape.groups == 0 || shape.leaves_per_group == 0 || shape.spines_per_group == 0 ||
      shape.hosts_per_leaf == 0) {
    return failure(Code::invalid_argument,
                   "a dragonfly+ topology cannot have {} groups, {} leaf switches per group, {} "
                   "spine switches per group and {} hosts per leaf switch: use 1 or more of each",
                   shape.groups, shape.leaves_per_group, shape.spines_per_group,
                   shape.hosts_per_leaf);
  }
  if (ports < shape.groups - 1) {
    return failure(Code::invalid_argument,
                   "a dragonfly+ group with {} global ports cannot reach {} other groups: add "
                   "spine switches, or global ports per spine switch",
                   ports, shape.groups - 1);
  }
  // Each host and each pair of a leaf and a spine switch has two links, each global port has one.
  const std::uint64_t links =
      2 * bounded_product({shape.groups, shape.leaves_per_group, shape.hosts_per_leaf}) +
      2 * bounded_product({shape.groups, shape.leaves_per_group, shape.spines_per_group}) +
      bounded_product({shape.groups, shape.spines_per_group, shape.global_ports_per_spine});
  if (links > kMaxLinks) {
    return failure(Code::invalid_argument,
                   "the dragonfly+ topology has more than {} links: use fewer groups, switches, "
                   "hosts or ports",
                   kMaxLinks);
  }
  return {};
}

Status check_tree(const FatTreeShape& shape) {
  const std::size_t levels = shape.down.size();
  if (levels == 0 || levels > kMaxLevels) {
    return failure(Code::invalid_argument, "a fat tree cannot have {} levels: use 1 to {} levels",
                   levels, kMaxLevels);
  }
  if (shape.up.size() != levels || (!shape.parallel.empty() && shape.parallel.size() != levels)) {
    return failure(
        Code::invalid_argument,
        "a fat tree with {0} numbers in 'down' has {1} in 'up' and {2} in 'parallel': give "
        "{0} numbers in 'up', and {0} or none in 'parallel'",
        levels, shape.up.size(), shape.parallel.size());
  }
  std::uint64_t hosts = 1;
  std::uint64_t links = 0;
  std::uint64_t copies = 1;
  for (std::size_t i = levels; i-- > 0;) {
    const std::uint64_t parallel = shape.parallel.empty() ? 1 : shape.parallel[i];
    if (shape.down[i] == 0 || shape.up[i] == 0 || parallel == 0) {
      return failure(
          Code::invalid_argument,
          "level {} of the fat tree has a 0 in 'down', 'up' or 'parallel': use 1 or more", i + 1);
    }
    hosts *= shape.down[i];
    if (hosts > kMaxLinks) break;
  }
  if (shape.up[0] != 1 || (!shape.parallel.empty() && shape.parallel[0] != 1)) {
    return failure(Code::invalid_argument,
                   "a host of a fat tree has more than one link: use 1 as the first number of "
                   "'up' and of 'parallel'");
  }
  std::uint64_t below = hosts;
  for (std::size_t i = 0; i < levels && links <= kMaxLinks; ++i) {
    copies *= shape.up[i];
    links += 2 * below * copies * (shape.parallel.empty() ? 1 : shape.parallel[i]);
    below /= shape.down[i];
  }
  if (hosts > kMaxLinks || links > kMaxLinks) {
    return failure(Code::invalid_argument,
                   "the fat tree has more than {} links: use fewer hosts or levels", kMaxLinks);
  }
  if (shape.hosts > hosts) {
    return failure(Code::invalid_argument,
                   "{} hosts do not fit into a fat tree with {} host positions: use fewer hosts or "
                   "a larger tree",
                   shape.hosts, hosts);
  }
  return {};
}

}  // namespace

Result<Topology> Topology::fat_tree(const FatTreeShape& shape) {
  if (const Status fits = check_tree(shape); !fits) return fits;
  std::uint32_t leaves = 1;
  for (std::size_t i = 1; i < shape.down.size(); ++i) leaves *= shape.down[i];
  std::uint32_t hosts = shape.hosts == 0 ? leaves * shape.down[0] : shape.hosts;
  std::vector<std::uint32_t> hosts_of_leaf;
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
    hosts_of_leaf.push_back(std::min(hosts, shape.down[0]));
    hosts -= hosts_of_leaf.back();
  }
  std::uint32_t switches = 0;
  std::uint32_t copies = 1;
  for (std::size_t i = 0; i < shape.down.size(); ++i) {
    copies *= shape.up[i];
    switches += leaves * copies;
    if (i + 1 < shape.down.size()) leaves /= shape.down[i + 1];
  }
  TopologyBuilder builder;
  builder.add_hosts(hosts_of_leaf, shape.down[0], builder.add_spec(shape.host_link));
  builder.set_switches(switches);
  return builder.finish_tree(shape);
}

Result<Topology> Topology::fat_tree(std::uint32_t radix, std::uint32_t levels,
                                    std::uint32_t oversubscription, LinkSpec spec) {
  if (levels == 0 || levels > kMaxLevels || radix < 2 || radix % 2 != 0) {
    return failure(Code::invalid_argument,
                   "a fat tree with {} levels cannot have {} ports per switch: use 1 to {} levels, "
                   "and an even number of ports, at least 2",
                   levels, radix, kMaxLevels);
  }
  if (oversubscription == 0 || radix % (oversubscription + 1) != 0) {
    return failure(
        Code::invalid_argument,
        "leaf switches of radix {} cannot have oversubscription {}: use an oversubscription "
        "of 1 or more, and a radix that is divisible by oversubscription + 1",
        radix, oversubscription);
  }
  FatTreeShape shape;
  shape.host_link = shape.trunk = spec;
  for (std::uint32_t level = 1; level <= levels; ++level) {
    const std::uint32_t up_of_leaf = radix / (oversubscription + 1);
    shape.down.push_back(level == levels ? radix : radix / 2);
    if (level == 1 && levels > 1) shape.down.back() = radix - up_of_leaf;
    shape.up.push_back(level == 1 ? 1 : level == 2 ? up_of_leaf : radix / 2);
  }
  return fat_tree(shape);
}

Topology Topology::cluster188(LinkSpec spec) {
  FatTreeShape shape{.down = {18, 12}, .up = {1, 6}, .parallel = {1, 3}};
  shape.host_link = shape.trunk = spec;
  return std::move(fat_tree(shape).value());
}

Topology Topology::back_to_back(LinkSpec spec) { return single_switch(2, spec); }

Topology Topology::single_switch(std::uint32_t hosts, LinkSpec spec) {
  FatTreeShape shape{.down = {std::max(hosts, 1u)}, .up = {1}, .parallel = {1}};
  shape.host_link = spec;
  return std::move(fat_tree(shape).value());
}

Result<Topology> Topology::dragonfly_plus(const DragonflyShape& shape) {
  if (const Status fits = check_dragonfly(shape); !fits) return fits;
  const std::uint32_t peers = shape.groups - 1;
  const std::uint64_t ports = std::uint64_t{shape.spines_per_group} * shape.global_ports_per_spine;
  const std::uint32_t leaves = shape.groups * shape.leaves_per_group;
  const std::uint32_t switches = leaves + shape.groups * shape.spines_per_group;
  TopologyBuilder builder;
  builder.add_hosts(std::vector<std::uint32_t>(leaves, shape.hosts_per_leaf), shape.hosts_per_leaf,
                    builder.add_spec(shape.host_link));
  builder.set_switches(switches);
  std::vector<std::uint32_t> group_of(switches);
  for (std::uint32_t at = 0; at < switches; ++at) {
    const bool leaf = at < leaves;
    builder.set_level(at, leaf ? 1 : 2);
    group_of[at] = leaf ? at / shape.leaves_per_group : (at - leaves) / shape.spines_per_group;
  }
  const std::uint8_t trunk = builder.add_spec(shape.trunk);
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
    for (std::uint32_t s = 0; s < shape.spines_per_group; ++s) {
      builder.add_cable(leaf, leaves + group_of[leaf] * shape.spines_per_group + s, trunk);
    }
  }
  // Global port q of group g leads to group (g + q mod (groups-1) + 1) mod groups. The other end of
  // its cable is at a port for which the same formula gives g.
  const std::uint8_t global = builder.add_spec(shape.global);
  const std::uint64_t rounds = peers == 0 ? 0 : ports / peers;
  for (std::uint32_t g = 0; g < shape.groups; ++g) {
    for (std::uint64_t q = 0; q < rounds * peers; ++q) {
      const std::uint64_t distance = q % peers + 1;
      const auto other = static_cast<std::uint32_t>((g + distance) % shape.groups);
      if (other < g) continue;
      const std::uint64_t back = q / peers * peers + shape.groups - distance - 1;
      const auto spine = [&](std::uint32_t group, std::uint64_t port) {
        return leaves + group * shape.spines_per_group +
               static_cast<std::uint32_t>(port / shape.global_ports_per_spine);
      };
      builder.add_cable(spine(g, q), spine(other, back), global);
    }
  }
  return builder.finish_tables(std::move(group_of), shape.groups);
}

}  // namespace tutti::sim
