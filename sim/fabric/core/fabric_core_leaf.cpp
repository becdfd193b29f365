// Handles the host ports of a leaf together, because under multicast all of them send the same
// packets at the same time.
//
// Ports of one leaf slice (port_table.hpp) share one stored state while their states are equal, and
// one event delivers a packet to the hosts of all these ports. A port stops sharing when it sends
// other traffic. It shares again when a multicast packet would start at the same instant on this
// port and on the ports that share.
//
// The results are exact, with one exception: a port that shares its state counts a packet in `rx`
// already when the packet starts on the link.
#include <algorithm>
#include <bit>

#include "sim/fabric/core/fabric_core.hpp"

namespace tutti::sim {

void FabricCore::send_to_leaf(std::uint32_t at, std::uint64_t hosts, Incoming& in,
                              const TrainPart& part) {
  counters_.in_flight += static_cast<std::uint64_t>(std::popcount(hosts)) * part.count;
  LeafSlice& slice = ports_.slice(at);
  const std::uint32_t first_link = topology_.hosts() + slice.first_host;
  std::uint64_t alone = hosts;
  const bool faulty = faults_.any_down() || (faults_.any_loss() && part.count > 1);
  if (settings_.leaf_groups && !faulty && std::popcount(hosts) > 1) {
    ports_.share(slice, hosts, in.ready);
    alone = hosts & ~slice.followers;
    send_in_common(at, in, part);
  }
  for (; alone != 0; alone &= alone - 1) {
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(alone));
    send(static_cast<LinkId>(first_link + bit), in, part);
  }
}

/// Sends part of a train through all ports that share the state of a leaf slice.
void FabricCore::send_in_common(std::uint32_t at, Incoming& in, const TrainPart& part) {
  LeafSlice& slice = ports_.slice(at);
  const Packet packet = flights_[part.flight].packet;
  const auto first_link = static_cast<LinkId>(topology_.hosts() + slice.first_host);
  const std::uint64_t hosts = slice.followers;
  const auto copies = static_cast<std::uint64_t>(std::popcount(hosts));
  const Picoseconds time = timing_.packet_time(first_link, packet);
  const Picoseconds begin = std::max({in.ready, in.tail - time, slice.common.busy_until});
  FabricPort& common = slice.common;
  if (in.ready <= common.train_until) counters_.train_conflicts += copies * part.count;
  const bool full = settings_.flow_control == FlowControl::lossy &&
                    begin - in.ready + time > timing_.full_queue_time(first_link);
  if (full) {
    for (std::uint64_t rest = hosts; rest != 0; rest &= rest - 1) {
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(rest));
      const auto link = static_cast<LinkId>(index(first_link) + bit);
      drop(link, in.ready, part, DropReason::queue_full);
    }
    return;
  }
  if (part.count > 1) common.train_until = in.ready + in.spacing * (part.count - 1);
  common.busy_until = begin + time * part.count;
  in.left_at = std::max(in.left_at, common.busy_until);
  in.left_spacing = time;
  const TrafficCount added{part.count, std::uint64_t{part.count} * packet.wire_bytes,
                           std::uint64_t{part.count} * packet.payload_bytes};
  common.tx += added;
  common.rx += added;
  counters_.hops += copies * part.count;
  for (std::uint64_t rest = observer_ != nullptr ? hosts : 0; rest != 0; rest &= rest - 1) {
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(rest));
    const auto link = static_cast<LinkId>(index(first_link) + bit);
    observer_->sent(link, begin, time, part.count, packet);
  }
  std::uint64_t reached = hosts;
  for (std::uint64_t rest = faults_.any_loss() ? hosts : 0; rest != 0; rest &= rest - 1) {
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(rest));
    const auto link = static_cast<LinkId>(index(first_link) + bit);
    if (!faults_.lost(link, packet, part.first)) continue;
    reached &= ~(std::uint64_t{1} << bit);
    ports_[link].rx -= {1, packet.wire_bytes, packet.payload_bytes};
    drop(link, begin + timing_.take_up_time(link, packet), part, DropReason::bit_error);
  }
  if (reached == 0) return;
  ++flights_[part.flight].references;
  const std::uint32_t run = leaf_runs_.take();
  leaf_runs_[run] = {part, at, reached};
  const auto lowest = static_cast<std::uint32_t>(std::countr_zero(reached));
  queue_.push({begin + timing_.take_up_time(first_link, packet),
               event_key(EventKind::fabric_leaf_arrival, index(first_link), lowest), run});
  ++counters_.leaf_events;
}

void FabricCore::arrive_at_leaf(const Event& event) {
  const auto place = static_cast<std::uint32_t>(event.argument);
  const LeafRun run = leaf_runs_[place];
  leaf_runs_.give_back(place);
  const Packet packet = flights_[run.part.flight].packet;
  const auto reached = static_cast<std::uint64_t>(std::popcount(run.hosts)) * run.part.count;
  counters_.delivered += reached;
  counters_.in_flight -= reached;
  unreference(run.part.flight);
  if (packet.background) return;
  const auto link = static_cast<LinkId>(target_of(event));
  sink_.arrived_on_leaf(
      {event.time, timing_.packet_time(link, packet), run.part.first, run.part.count},
      HostId{ports_.slice(run.slice).first_host}, run.hosts, packet);
}

}  // namespace tutti::sim
