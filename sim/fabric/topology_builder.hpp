// Puts a Topology together: hosts on leaves, cables between switches, then what is derived from
// them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/fabric/topology.hpp"

namespace tutti::sim {

class TopologyBuilder {
 public:
  /// The kind's number, for links; equal kinds share one. At most 256 kinds.
  std::uint8_t add_spec(const LinkSpec& spec);
  /// Hosts per leaf, leaf by leaf, and their links. Called first. A uniform number lets leaf_of
  /// divide instead of looking up; 0: leaves differ.
  void add_hosts(std::span<const std::uint32_t> hosts_of_leaf, std::uint32_t uniform,
                 std::uint8_t spec);
  /// Switches without hosts behind the leaves; levels of all are set with set_level.
  void set_switches(std::uint32_t switches);
  void set_level(std::uint32_t at, std::uint32_t level);
  /// Both directions of a cable; the classes follow from the levels. Numbers from then on.
  void add_cable(std::uint32_t a, std::uint32_t b, std::uint8_t spec);

  /// Fat trees: arithmetic instead of tables. `up_links` of a level lead on, see Topology::Level.
  Topology finish_tree(const FatTreeShape& shape);
  /// Tables over the leaves of a group and over groups. Leaves and groups are numbered alike, group
  /// by group; `group_of` is by switch. Refused where a leaf cannot be reached.
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
