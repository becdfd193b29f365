// Builds a Topology: first hosts on leaves, then cables between switches, finally the routes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/fabric/topology.hpp"

namespace tutti::sim {

class TopologyBuilder {
 public:
  /// Adds a kind of link and returns its number. If an equal kind has been added before, returns
  /// the number of that kind. At most 256 kinds are possible.
  std::uint8_t add_spec(const LinkSpec& spec);
  /// Adds the leaves, their hosts, and the links between each leaf and its hosts; must be called
  /// first. If host h is on leaf h / n for every h, `uniform` may be n, and leaf_of() divides by n.
  /// Otherwise `uniform` must be 0, and leaf_of() looks the leaf up in a table.
  void add_hosts(std::span<const std::uint32_t> hosts_of_leaf, std::uint32_t uniform,
                 std::uint8_t spec);
  /// Sets the total number of switches; switches without hosts follow the leaves.
  void set_switches(std::uint32_t switches);
  void set_level(std::uint32_t at, std::uint32_t level);
  /// Adds both links of a cable. The class of each link follows from the levels of its switches,
  /// which must not change afterwards.
  void add_cable(std::uint32_t a, std::uint32_t b, std::uint8_t spec);

  /// Finishes a fat tree, whose routes are computed from the counts in Topology::Level.
  Topology finish_tree(const FatTreeShape& shape);
  /// Finishes a topology that routes by tables: each switch has the routes to every leaf of its own
  /// group and to every group. `group_of` contains the group of each switch; leaves are numbered
  /// group by group. Error: a leaf cannot be reached.
  Result<Topology> finish_tables(std::vector<std::uint32_t> group_of, std::uint32_t groups);

 private:
  using Distances = std::vector<std::uint16_t>;
  void add_link(std::uint32_t from, std::uint32_t to, LinkClass link_class, std::uint8_t spec);
  void number_tree(const FatTreeShape& shape);
  void list_trunks();
  Distances distances(std::span<const std::uint32_t> targets, std::uint32_t within_group) const;
  Status fill_routes();

  Topology made_;
};

}  // namespace tutti::sim
