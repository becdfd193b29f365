// The host ports of a leaf as one: under multicast they do the same at the same time.
//
// Ports with equal state share it in a slice, and one event delivers to all of them. A port with
// traffic of its own leaves the slice with the state it had. It rejoins at the first multicast
// packet that starts on it and on the others at the same instant. Differing ports have their own
// events, so nothing is approximated; only `rx` of shared ports is early by the time of the last
// hop.
#include "sim/fabric/core/fabric_core.hpp"

namespace tutti::sim {

void FabricCore::leave(Slice& slice, std::uint64_t ports) {
  for (std::uint64_t rest = ports; rest != 0; rest &= rest - 1) {
    const std::uint32_t host =
        slice.first_host + static_cast<std::uint32_t>(std::countr_zero(rest));
    FabricPort& port = ports_[topology_.hosts() + host];
    port.busy_until = slice.common.busy_until;
    port.train_until = slice.common.train_until;
    port.tx += slice.common.tx;
    port.rx += slice.common.rx;
  }
  slice.followers &= ~ports;
}

/// Turns the port's counts into differences from the slice's; they may wrap below 0.
void FabricCore::join(Slice& slice, std::uint32_t bit) {
  FabricPort& port = ports_[topology_.hosts() + slice.first_host + bit];
  const auto subtract = [](TrafficCount& from, const TrafficCount& what) {
    from.packets -= what.packets;
    from.wire_bytes -= what.wire_bytes;
    from.payload_bytes -= what.payload_bytes;
  };
  subtract(port.tx, slice.common.tx);
  subtract(port.rx, slice.common.rx);
  slice.followers |= std::uint64_t{1} << bit;
}

/// Called before a host's port is used alone.
void FabricCore::leave_slice(LinkId link) {
  if (groups_.empty() || !topology_.is_host_down(link)) return;
  const std::uint32_t host = tutti::sim::index(link) - topology_.hosts();
  Slice& slice = slices_[slice_of(HostId{host})];
  const std::uint64_t bit = std::uint64_t{1} << (host - slice.first_host);
  if ((slice.followers & bit) != 0) leave(slice, bit);
}

Picoseconds FabricCore::busy_until(LinkId link) const {
  const FabricPort& own = ports_[tutti::sim::index(link)];
  if (groups_.empty() || !topology_.is_host_down(link)) return own.busy_until;
  const std::uint32_t host = tutti::sim::index(link) - topology_.hosts();
  const Slice& slice = slices_[slice_of(HostId{host})];
  const bool follows = (slice.followers >> (host - slice.first_host) & 1) != 0;
  return follows ? slice.common.busy_until : own.busy_until;
}

TrafficCount FabricCore::counted(LinkId link, bool received) const {
  const FabricPort& own = ports_[tutti::sim::index(link)];
  TrafficCount count = received ? own.rx : own.tx;
  if (groups_.empty() || !topology_.is_host_down(link)) return count;
  const std::uint32_t host = tutti::sim::index(link) - topology_.hosts();
  const Slice& slice = slices_[slice_of(HostId{host})];
  if ((slice.followers >> (host - slice.first_host) & 1) != 0) {
    count += received ? slice.common.rx : slice.common.tx;
  }
  return count;
}

void FabricCore::send_to_leaf(std::uint32_t at, std::uint64_t hosts, Incoming& in,
                              const TrainPart& part) {
  counters_.in_flight += static_cast<std::uint64_t>(std::popcount(hosts)) * part.count;
  Slice& slice = slices_[at];
  const std::uint32_t first_link = topology_.hosts() + slice.first_host;
  std::uint64_t alone = hosts;
  const bool faulty = !down_.empty() || (any_loss_ && part.count > 1);
  if (settings_.leaf_groups && !faulty && std::popcount(hosts) > 1) {
    leave(slice, slice.followers & ~hosts);
    if (slice.followers == 0) {
      const auto first = static_cast<std::uint32_t>(std::countr_zero(hosts));
      const FabricPort& port = ports_[first_link + first];
      slice.common.busy_until = port.busy_until;
      slice.common.train_until = port.train_until;
      join(slice, first);
    }
    const Picoseconds start = std::max(in.ready, slice.common.busy_until);
    for (std::uint64_t rest = hosts & ~slice.followers; rest != 0; rest &= rest - 1) {
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(rest));
      const FabricPort& port = ports_[first_link + bit];
      if (std::max(in.ready, port.busy_until) != start) continue;
      slice.common.train_until = std::max(slice.common.train_until, port.train_until);
      join(slice, bit);
    }
    alone = hosts & ~slice.followers;
    send_in_common(at, in, part);
  }
  for (; alone != 0; alone &= alone - 1) {
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(alone));
    send(static_cast<LinkId>(first_link + bit), in, part);
  }
}

/// Sends to all ports that follow the slice.
void FabricCore::send_in_common(std::uint32_t at, Incoming& in, const TrainPart& part) {
  Slice& slice = slices_[at];
  const Packet packet = flights_[part.flight].packet;
  const auto first_link = static_cast<LinkId>(topology_.hosts() + slice.first_host);
  const std::uint64_t hosts = slice.followers;
  const auto copies = static_cast<std::uint64_t>(std::popcount(hosts));
  const Picoseconds time = packet_time(first_link, packet);
  const Picoseconds begin = std::max({in.ready, in.tail - time, slice.common.busy_until});
  FabricPort& common = slice.common;
  if (in.ready <= common.train_until) counters_.train_conflicts += copies * part.count;
  const bool full = settings_.flow_control == FlowControl::lossy &&
                    begin - in.ready + time > queue_times_[topology_.link(first_link).spec];
  if (full) {
    for (std::uint64_t rest = hosts; rest != 0; rest &= rest - 1) {
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(rest));
      const auto link = static_cast<LinkId>(tutti::sim::index(first_link) + bit);
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
    const auto link = static_cast<LinkId>(tutti::sim::index(first_link) + bit);
    observer_->sent(link, begin, time, part.count, packet);
  }
  std::uint64_t reached = hosts;
  for (std::uint64_t rest = any_loss_ ? hosts : 0; rest != 0; rest &= rest - 1) {
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(rest));
    const auto link = static_cast<LinkId>(tutti::sim::index(first_link) + bit);
    if (!lost(link, packet, part.first)) continue;
    reached &= ~(std::uint64_t{1} << bit);
    TrafficCount& rx = ports_[tutti::sim::index(link)].rx;
    rx.packets -= 1;
    rx.wire_bytes -= packet.wire_bytes;
    rx.payload_bytes -= packet.payload_bytes;
    drop(link, begin + take_up_time(link, packet), part, DropReason::bit_error);
  }
  if (reached == 0) return;
  ++flights_[part.flight].references;
  const std::uint32_t run = leaf_runs_.take();
  leaf_runs_[run] = {part, at, reached};
  const auto lowest = static_cast<std::uint32_t>(std::countr_zero(reached));
  queue_.push({begin + take_up_time(first_link, packet),
               event_key(EventKind::fabric_leaf_arrival, tutti::sim::index(first_link), lowest),
               run});
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
  sink_.arrived_on_leaf({event.time, packet_time(link, packet), run.part.first, run.part.count},
                        HostId{slices_[run.slice].first_host}, run.hosts, packet);
}

}  // namespace tutti::sim
