// In-network reductions: a group's tree, walked towards the destination, is a multicast from the
// destination reversed. Each switch keeps one sum a reduction and sends it on after the last
// contribution from its side of the tree. Link traffic and its times are exact; the arithmetic
// takes no longer than forwarding.
#include "sim/fabric/core/fabric_core.hpp"

namespace tutti::sim {

/// For each switch of a group's tree, the link towards a destination's leaf; kNoLink at that leaf
/// and outside the tree.
const std::vector<LinkId>& FabricCore::towards(std::uint32_t group, HostId destination) {
  Group& tree = groups_[group];
  const std::uint32_t leaf = tutti::sim::index(topology_.leaf_of(destination));
  if (tree.towards.empty()) tree.towards.resize(topology_.leaves());
  std::vector<LinkId>& links = tree.towards[leaf];
  if (!links.empty()) return links;
  links.assign(topology_.switches(), kNoLink);
  std::vector<std::uint32_t> reached{leaf};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const std::uint32_t at = reached[i];
    for (std::uint32_t l = tree.first_links[at]; l < tree.first_links[at + 1]; ++l) {
      if (tree.links[l] == links[at]) continue;
      const std::uint32_t next = topology_.link(tree.links[l]).to;
      links[next] = topology_.reverse(tree.links[l]);
      reached.push_back(next);
    }
  }
  return links;
}

/// The number of contributions that a switch waits for: one from each tree neighbour except that
/// towards the destination, and one from each member host except the destination.
std::uint32_t FabricCore::contributions_at(SwitchId at, const Packet& packet,
                                           LinkId towards_destination) {
  const std::uint32_t where = tutti::sim::index(at);
  const Group& tree = groups_[packet.flow];
  std::uint32_t count = tree.first_links[where + 1] - tree.first_links[where];
  if (towards_destination != kNoLink) --count;
  if (where >= topology_.leaves()) return count;
  for (std::uint32_t s = first_slices_[where]; s < first_slices_[where + 1]; ++s) {
    std::uint64_t hosts = tree.hosts[s];
    const std::uint32_t own = packet.target - slices_[s].first_host;
    if (own < 64) hosts &= ~(std::uint64_t{1} << own);
    count += static_cast<std::uint32_t>(std::popcount(hosts));
  }
  return count;
}

void FabricCore::forward_contribution(SwitchId at, Incoming& in, const TrainPart& part) {
  const Packet packet = flights_[part.flight].packet;
  const HostId destination{packet.target};
  const bool last_switch = topology_.leaf_of(destination) == at;
  const LinkId link = towards(packet.flow, destination)[tutti::sim::index(at)];
  if (link == kNoLink && !last_switch) return drop(in.link, in.ready, part, DropReason::link_down);
  const SumName name{packet.cookie + part.first,
                     std::uint64_t{tutti::sim::index(at)} << 32 | packet.target};
  const auto [found, fresh] = reductions_.try_emplace(name);
  OpenSum& sum = found->second;
  if (fresh) {
    sum.missing = contributions_at(at, packet, link);
    counters_.most_open_reductions =
        std::max<std::uint64_t>(counters_.most_open_reductions, reductions_.size());
  }
  sum.ready = std::max(sum.ready, in.ready);
  sum.tail = std::max(sum.tail, in.tail);
  if (--sum.missing > 0) {
    counters_.absorbed += part.count;
    counters_.in_flight -= part.count;
    return;
  }
  in.ready = sum.ready;
  in.tail = sum.tail;
  reductions_.erase(found);
  send(last_switch ? topology_.host_down(destination) : link, in, part);
}

}  // namespace tutti::sim
