// Chooses the host of each rank.
#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/random.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::sim {
namespace {

/// The leaves that have hosts.
std::vector<SwitchId> populated_leaves(const Topology& topology) {
  std::vector<SwitchId> leaves;
  for (std::uint32_t leaf = 0; leaf < topology.leaves(); ++leaf) {
    if (topology.host_count(SwitchId{leaf}) > 0) leaves.push_back(SwitchId{leaf});
  }
  return leaves;
}

/// Places rank r on leaf r * leaves / ranks if `in_blocks` is true, otherwise on leaf r mod leaves.
/// If this leaf is full, the rank is placed on the next leaf that has a free host.
std::vector<HostId> over_leaves(const Topology& topology, std::uint32_t ranks, bool in_blocks) {
  const std::vector<SwitchId> leaves = populated_leaves(topology);
  std::vector<std::uint32_t> used(leaves.size());
  std::vector<HostId> hosts;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    std::size_t leaf =
        in_blocks ? std::uint64_t{rank} * leaves.size() / ranks : rank % leaves.size();
    while (used[leaf] == topology.host_count(leaves[leaf])) leaf = (leaf + 1) % leaves.size();
    hosts.push_back(static_cast<HostId>(index(topology.first_host(leaves[leaf])) + used[leaf]++));
  }
  return hosts;
}

}  // namespace

Result<std::vector<HostId>> place(const Topology& topology, std::uint32_t ranks, PlacementKind kind,
                                  std::uint64_t seed) {
  if (ranks > topology.hosts()) {
    return failure(Code::invalid_argument,
                   "{} ranks do not fit on {} hosts: use fewer ranks or a larger topology", ranks,
                   topology.hosts());
  }
  if (kind == PlacementKind::even_blocks || kind == PlacementKind::spread) {
    return over_leaves(topology, ranks, kind == PlacementKind::even_blocks);
  }
  std::vector<HostId> hosts;
  for (std::uint32_t host = 0; host < topology.hosts(); ++host) hosts.push_back(HostId{host});
  if (kind == PlacementKind::random) {
    Random random(seed);
    for (std::size_t i = hosts.size(); i > 1; --i) std::swap(hosts[i - 1], hosts[random.below(i)]);
  }
  hosts.resize(ranks);
  return hosts;
}

}  // namespace tutti::sim
