// Builds a Topology: hosts on leaves, cables between switches, then the derived routes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/fabric/topology.hpp"

namespace tutti::sim {

class TopologyBuilder {
 public:
  /// The number of a kind of link; equal kinds share one. At most 256 kinds.
  std::uint8_t add_spec(const LinkSpec& spec);
  /// Sets the hosts per leaf and their links. Called first. A uniform number lets leaf_of divide
  /// instead of looking up; 0 if leaves differ.
  void add_hosts(std::span<const std::uint32_t> hosts_of_leaf, std::uint32_t uniform,
                 std::uint8_t spec);
  /// Adds switches without hosts after the leaves; set_level sets the levels of all.
  void set_switches(std::uint32_t switches);
  void set_level(std::uint32_t at, std::uint32_t level);
  /// Adds both directions of a cable. Classes follow from the levels, which may not change
  /// afterwards.
  void add_cable(std::uint32_t a, std::uint32_t b, std::uint8_t spec);

  /// Finishes a fat tree, which routes by arithmetic. `up_links`: see Topology::Level.
  Topology finish_tree(const FatTreeShape& shape);
  /// Finishes with tables over the leaves of a group and over groups. Leaves and groups are both
  /// numbered group by group; `group_of` is by switch. Error: a leaf cannot be reached.
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
