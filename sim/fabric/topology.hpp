// Topologies: hosts, switches, directed links, and the routes to each host.
//
// Fat trees compute routes from the positions of switches. Other topologies look routes up in a
// table, which has for each switch the routes to the leaves of its own group and to every group. No
// table covers pairs of hosts, so 100,000 hosts fit in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/fabric/time.hpp"
#include "tutti/status.hpp"

namespace tutti::sim {

/// The number of a host, from 0 to hosts - 1. The hosts of one switch have consecutive numbers.
enum class HostId : std::uint32_t {};
/// The number of a switch, from 0 to switches - 1. Switches with hosts (leaves) come first, in the
/// order of their hosts.
enum class SwitchId : std::uint32_t {};
/// The number of a directed link. Link h leads from host h to its leaf, link hosts + h from that
/// leaf to host h; links between switches have higher numbers.
enum class LinkId : std::uint32_t {};

constexpr std::uint32_t index(HostId host) { return static_cast<std::uint32_t>(host); }
constexpr std::uint32_t index(SwitchId at) { return static_cast<std::uint32_t>(at); }
constexpr std::uint32_t index(LinkId link) { return static_cast<std::uint32_t>(link); }

inline constexpr LinkId kNoLink = static_cast<LinkId>(0xffff'ffffu);

/// The class of a link: its level and direction. A link of class up1 leads up from a leaf, and a
/// link of class down1 leads down to a leaf. Traffic is summed for each class.
enum class LinkClass : std::uint8_t {
  host_up,
  host_down,
  up1,
  down1,
  up2,
  down2,
  up3,
  down3,
  up4,
  down4,
  up5,
  down5,
  up6,
  down6,
  side,  ///< link between switches of one level, such as a global link of a dragonfly+
};
inline constexpr std::size_t kLinkClasses = 15;
/// The name of a link class, such as "host_up" or "up1".
const char* to_string(LinkClass link_class);
constexpr LinkClass up_class(std::uint32_t level) { return static_cast<LinkClass>(2 * level); }
constexpr LinkClass down_class(std::uint32_t level) {
  return static_cast<LinkClass>(2 * level + 1);
}

/// The physical properties of a kind of link.
struct LinkSpec {
  std::uint64_t bits_per_second = 200'000'000'000;
  /// Propagation delay, from first bit sent to first bit received.
  Picoseconds latency = nanoseconds(50);
  double bit_error_rate = 0;

  friend bool operator==(const LinkSpec&, const LinkSpec&) = default;
};

/// One direction of a cable.
struct Link {
  std::uint32_t from = 0;  ///< sending end: a HostId for host_up, otherwise a SwitchId
  std::uint32_t to = 0;    ///< receiving end: a HostId for host_down, otherwise a SwitchId
  LinkClass link_class = LinkClass::host_up;
  std::uint8_t spec = 0;  ///< index into Topology::specs()
};

/// A fat tree of any shape. The hosts are level 0 and the leaves are level 1. Each switch of level
/// i has down[i-1] children in level i-1. Each child has up[i-1] parents in level i and
/// parallel[i-1] links to each parent. A host has one parent, so up[0] is 1.
struct FatTreeShape {
  std::vector<std::uint32_t> down;
  std::vector<std::uint32_t> up;
  /// Number of parallel links from a child to each of its parents, indexed as `up`; empty: 1 at
  /// every level.
  std::vector<std::uint32_t> parallel;
  std::uint32_t hosts = 0;  ///< number of hosts, which fill the leaves in order; 0: all leaves full
  LinkSpec host_link{};
  LinkSpec trunk{};
};

/// A dragonfly+ topology: groups of leaves and spines. Each leaf has a link to each spine of its
/// group. Global links connect spines of different groups; every pair of groups has the same number
/// of global links.
struct DragonflyShape {
  std::uint32_t groups = 0;
  std::uint32_t leaves_per_group = 0;
  std::uint32_t spines_per_group = 0;
  std::uint32_t hosts_per_leaf = 0;
  std::uint32_t global_ports_per_spine = 0;
  LinkSpec host_link{};
  LinkSpec trunk{};
  LinkSpec global{.latency = nanoseconds(500)};
};

/// The links from a switch that lead one hop nearer to a destination. All of them are on shortest
/// paths.
class NextLinks {
 public:
  NextLinks(LinkId first, std::uint32_t count) : first_(index(first)), count_(count) {}
  explicit NextLinks(std::span<const LinkId> list)
      : list_(list.data()), count_(static_cast<std::uint32_t>(list.size())) {}

  std::uint32_t size() const { return count_; }
  LinkId operator[](std::uint32_t i) const {
    return list_ != nullptr ? list_[i] : static_cast<LinkId>(first_ + i);
  }

 private:
  const LinkId* list_ = nullptr;
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
};

class Topology {
 public:
  /// Makes a fat tree of any shape. The error names the list or number that does not fit.
  static Result<Topology> fat_tree(const FatTreeShape& shape);
  /// Makes the fat tree of switches with `radix` ports. A switch of the top level has only ports
  /// down. Below it, a leaf has `oversubscription` times as many ports down as up, and any other
  /// switch has as many down as up.
  static Result<Topology> fat_tree(std::uint32_t radix, std::uint32_t levels,
                                   std::uint32_t oversubscription = 1, LinkSpec spec = {});
  /// The system of [Khalilov24] 6.2: 12 leaves with positions for 18 hosts each, 6 spines of 36
  /// ports, and three parallel links from each leaf to each spine.
  static Topology cluster188(LinkSpec spec = {.bits_per_second = 56'000'000'000});
  /// Two hosts with a switch between them. A direct cable is not possible, because every link of a
  /// topology needs a switch at one end.
  static Topology back_to_back(LinkSpec spec = {});
  static Topology single_switch(std::uint32_t hosts, LinkSpec spec = {});
  static Result<Topology> dragonfly_plus(const DragonflyShape& shape);
  /// Reads a topology in the text format that topology_text.cpp describes. The error names `name`,
  /// the line and the remedy.
  static Result<Topology> parse(std::string_view text, std::string_view name = "topology");

  std::uint32_t hosts() const { return hosts_; }
  std::uint32_t switches() const { return static_cast<std::uint32_t>(positions_.size()); }
  std::uint32_t leaves() const { return leaves_; }
  std::uint32_t levels() const { return levels_; }
  std::uint32_t links() const { return static_cast<std::uint32_t>(links_.size()); }
  std::span<const LinkSpec> specs() const { return specs_; }

  const Link& link(LinkId link) const { return links_[index(link)]; }
  LinkId host_up(HostId host) const { return static_cast<LinkId>(index(host)); }
  LinkId host_down(HostId host) const { return static_cast<LinkId>(hosts_ + index(host)); }
  bool is_host_down(LinkId link) const { return index(link) - hosts_ < hosts_; }
  SwitchId leaf_of(HostId host) const {
    return static_cast<SwitchId>(hosts_per_leaf_ != 0 ? index(host) / hosts_per_leaf_
                                                      : links_[index(host)].to);
  }
  /// The first host of a leaf. `leaf` may also be leaves(), one past the last leaf; the result is
  /// then hosts().
  HostId first_host(SwitchId leaf) const { return static_cast<HostId>(first_hosts_[index(leaf)]); }
  std::uint32_t host_count(SwitchId leaf) const {
    return first_hosts_[index(leaf) + 1] - first_hosts_[index(leaf)];
  }
  /// The level of a switch; leaves have level 1.
  std::uint32_t level(SwitchId at) const { return positions_[index(at)].level; }
  /// All links from a switch to other switches, in ascending order of LinkId.
  std::span<const LinkId> trunks(SwitchId at) const {
    const std::uint32_t first = first_trunks_[index(at)];
    return {trunks_.data() + first, first_trunks_[index(at) + 1] - first};
  }
  /// The link in the other direction of the same cable.
  LinkId reverse(LinkId link) const { return reverse_[index(link)]; }

  /// The links from a switch that lead towards a host. At the host's leaf, the result is only the
  /// link down to the host.
  NextLinks next(SwitchId at, HostId destination) const {
    return computed_ ? next_in_tree(at, destination) : next_in_table(at, destination);
  }

 private:
  friend class TopologyBuilder;

  /// The position of a switch in a fat tree. `subtree` is the index of the switch's subtree among
  /// all subtrees of its level; several switches can be the top of one subtree.
  struct Position {
    std::uint32_t level = 0;
    std::uint32_t subtree = 0;
    std::uint32_t first_up = 0;    ///< first link up
    std::uint32_t first_down = 0;  ///< first link down
  };
  /// The counts for one level of a fat tree, from which the routes at its switches are computed.
  struct Level {
    std::uint32_t hosts_below = 1;  ///< number of hosts below a switch of this level
    std::uint32_t children = 0;     ///< number of children of a switch of this level
    std::uint32_t parallel = 1;     ///< number of parallel links to each child
    std::uint32_t up_links = 0;     ///< links up from one switch: parents times parallel links
    std::uint32_t child_hosts_below = 1;
  };

  Topology() = default;
  NextLinks next_in_tree(SwitchId at, HostId destination) const {
    const Position& position = positions_[index(at)];
    const Level& level = level_[position.level - 1];
    if (index(destination) / level.hosts_below != position.subtree) {
      return {static_cast<LinkId>(position.first_up), level.up_links};
    }
    if (position.level == 1) return {host_down(destination), 1};
    const std::uint32_t child = index(destination) / level.child_hosts_below % level.children;
    return {static_cast<LinkId>(position.first_down + child * level.parallel), level.parallel};
  }
  NextLinks next_in_table(SwitchId at, HostId destination) const;

  std::uint32_t hosts_ = 0;
  std::uint32_t leaves_ = 0;
  std::uint32_t levels_ = 1;
  /// Number n of hosts per leaf: host h is on leaf h / n. If n is 0, the leaf is looked up in a
  /// table.
  std::uint32_t hosts_per_leaf_ = 0;
  bool computed_ = false;
  std::vector<Link> links_;
  std::vector<LinkId> reverse_;
  std::vector<LinkSpec> specs_;
  std::vector<Position> positions_;
  std::vector<Level> level_;
  std::vector<std::uint32_t> first_hosts_;
  std::vector<std::uint32_t> first_trunks_;
  std::vector<LinkId> trunks_;

  // Routing tables. In routes_, the links from switch `at` towards a region begin at index
  // first_routes_[at * regions_ + region]. The regions of a switch are the leaves of its own group,
  // followed by all groups.
  std::uint32_t groups_ = 0;
  std::uint32_t regions_ = 0;
  std::uint32_t leaves_per_group_ = 0;
  std::vector<std::uint32_t> group_of_;  ///< group of each switch, indexed by switch
  std::vector<std::uint32_t> first_routes_;
  std::vector<LinkId> routes_;
};

/// How ranks are placed on hosts.
enum class PlacementKind : std::uint8_t {
  packed,       ///< fills all hosts of a leaf before those of the next leaf
  even_blocks,  ///< divides the ranks into runs of about equal length, one per leaf
  spread,       ///< places consecutive ranks on consecutive leaves (round robin)
  random,       ///< places each rank on a host drawn at random without replacement
};
/// Chooses a host for each of the ranks 0 to ranks - 1. Error: there are more ranks than hosts.
Result<std::vector<HostId>> place(const Topology& topology, std::uint32_t ranks, PlacementKind kind,
                                  std::uint64_t seed = 1);

}  // namespace tutti::sim
