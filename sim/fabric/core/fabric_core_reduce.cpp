// In-network reductions: contributions travel along the links of a multicast tree to the
// destination host, in the direction opposite to a multicast from this host. Each switch has one
// sum per reduction, and sends the sum on when the last contribution has arrived.
//
// The packets on each link and their times are exact. The additions take no time.
#include <algorithm>

#include "sim/fabric/core/fabric_core.hpp"

namespace tutti::sim {

void FabricCore::forward_contribution(SwitchId at, Incoming& in, const TrainPart& part) {
  const Packet packet = flights_[part.flight].packet;
  const HostId destination{packet.target};
  const bool last_switch = topology_.leaf_of(destination) == at;
  const LinkId link = trees_.towards(packet.flow, destination)[index(at)];
  if (link == kNoLink && !last_switch) return drop(in.link, in.ready, part, DropReason::link_down);
  const SumName name{packet.cookie + part.first, std::uint64_t{index(at)} << 32 | packet.target};
  const auto [found, fresh] = reductions_.try_emplace(name);
  OpenSum& sum = found->second;
  if (fresh) {
    sum.missing = trees_.contributions_at(at, packet, link);
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
