// Forwarding of a packet: arrival at a port, choice of the next link, departure.
#include <algorithm>
#include <bit>

#include "sim/fabric/core/fabric_core.hpp"

namespace tutti::sim {
namespace {

/// Maps a hash uniformly to [0, bound).
std::uint32_t scale(std::uint64_t hash, std::uint32_t bound) {
  return static_cast<std::uint32_t>((hash >> 32) * bound >> 32);
}

}  // namespace

void FabricCore::handle(const Event& event) {
  switch (kind_of(event)) {
    case EventKind::fabric_arrival:
      return arrive(event);
    case EventKind::fabric_leaf_arrival:
      return arrive_at_leaf(event);
    case EventKind::fabric_credit:
      return wake(static_cast<LinkId>(target_of(event)));
    default:
      return;
  }
}

Picoseconds FabricCore::inject(Picoseconds now, HostId from, const Packet& packet) {
  const std::uint32_t slot = flights_.take();
  Flight& flight = flights_[slot];
  flight.packet = packet;
  flight.references = 1;
  flight.packet.source = from;
  flight.packet.wire_bytes = std::max(packet.wire_bytes, 1u);
  flight.packet.count = std::max<std::uint16_t>(packet.count, 1);
  const std::uint16_t count = flight.packet.count;
  std::uint64_t& sent = sent_by_host_[index(from)];
  if (packet.identity == 0) {
    flight.packet.identity = (std::uint64_t{index(from)} + 1) << 40 | sent;
  }
  sent += count;
  counters_.injected += count;
  counters_.in_flight += count;

  const LinkId link = topology_.host_up(from);
  Incoming in{.link = kNoLink, .ready = now, .spacing = {}, .tail = now, .left_at = now};
  const TrainPart all{slot, 0, count};
  if (count == 1 || (!packet.reduced && fits_as_one(link, in, all))) {
    send(link, in, all);
  } else {
    for (std::uint16_t i = 0; i < count; ++i) send(link, in, {slot, i, 1});
  }
  unreference(slot);
  return in.hold != 0 ? kForever : in.left_at;
}

void FabricCore::unreference(std::uint32_t flight, std::uint32_t references) {
  if ((flights_[flight].references -= references) == 0) flights_.give_back(flight);
}

void FabricCore::arrive(const Event& event) {
  const auto link = static_cast<LinkId>(target_of(event));
  TrainPart part = TrainPart::unpack(event.argument);
  if (topology_.is_host_down(link)) return deliver(event, part, link);
  const auto at = static_cast<SwitchId>(topology_.link(link).to);
  const Packet& packet = flights_[part.flight].packet;
  const Picoseconds time = timing_.packet_time(link, packet);
  Incoming in{.link = link,
              .ready = event.time + settings_.switch_latency,
              .spacing = time,
              .tail = event.time + settings_.switch_latency};
  if (settings_.forwarding == Forwarding::cut_through) {
    in.tail += time + timing_.latency(link) - timing_.take_up_time(link, packet);
  }
  in.left_at = in.ready;
  if (part.count > 1 && !goes_as_one(at, in, part)) {
    // Forwards only the first packet of the train. The other packets become a train of their own,
    // which has its event when its own first packet arrives.
    TrainPart rest = part;
    ++rest.first;
    --rest.count;
    ++flights_[part.flight].references;
    queue_.push({event.time + time, event.key, rest.pack()});
    part.count = 1;
  }
  FabricPort& port = ports_[link];
  port.rx.packets += part.count;
  port.rx.wire_bytes += std::uint64_t{part.count} * packet.wire_bytes;
  port.rx.payload_bytes += std::uint64_t{part.count} * packet.payload_bytes;
  forward(at, in, part);
  if (credits_.enabled()) credits_.finish_input(in, part, flights_[part.flight].packet.wire_bytes);
  unreference(part.flight);
}

void FabricCore::deliver(const Event& event, const TrainPart& part, LinkId link) {
  const Packet packet = flights_[part.flight].packet;
  FabricPort& port = ports_[link];
  port.rx.packets += part.count;
  port.rx.wire_bytes += std::uint64_t{part.count} * packet.wire_bytes;
  port.rx.payload_bytes += std::uint64_t{part.count} * packet.payload_bytes;
  counters_.delivered += part.count;
  counters_.in_flight -= part.count;
  unreference(part.flight);
  if (packet.background) return;
  const auto host = static_cast<HostId>(index(link) - topology_.hosts());
  sink_.arrived({event.time, timing_.packet_time(link, packet), part.first, part.count}, host,
                packet);
}

void FabricCore::forward(SwitchId at, Incoming& in, const TrainPart& part) {
  const Packet& packet = flights_[part.flight].packet;
  if (packet.multicast) return forward_multicast(at, in, part);
  if (packet.reduced) return forward_contribution(at, in, part);
  const LinkId link =
      choose(topology_.next(at, HostId{packet.target}), at, packet, part.first, in.ready);
  if (link == kNoLink) return drop(in.link, in.ready, part, DropReason::link_down);
  send(link, in, part);
}

void FabricCore::forward_multicast(SwitchId at, Incoming& in, const TrainPart& part) {
  const Packet packet = flights_[part.flight].packet;
  const std::uint32_t where = index(at);
  const LinkId back = topology_.reverse(in.link);
  for (const LinkId link : trees_[packet.target].links_of(at)) {
    if (link == back) continue;
    counters_.in_flight += part.count;
    send(link, in, part);
  }
  if (where < topology_.leaves()) {
    for (std::uint32_t s = ports_.first_slice(where); s < ports_.first_slice(where + 1); ++s) {
      const std::uint64_t own = ports_.slice(s).bit_of(packet.source);
      const std::uint64_t hosts = trees_[packet.target].hosts[s] & ~own;
      if (hosts != 0) send_to_leaf(s, hosts, in, part);
    }
  }
  counters_.in_flight -= part.count;
}

/// Chooses one of the links on shortest paths; kNoLink if all of them are down.
LinkId FabricCore::choose(const NextLinks& next, SwitchId at, const Packet& packet,
                          std::uint32_t first, Picoseconds ready) {
  const std::uint32_t size = next.size();
  if (size == 1 && !faults_.any_down()) return next[0];
  std::uint32_t chosen = 0;
  if (settings_.routing == Routing::destination) {
    std::uint32_t number = packet.target;
    for (std::uint32_t i = 1; i < topology_.level(at); ++i) number /= size;
    chosen = number % size;
  } else {
    const bool by_packet = settings_.routing == Routing::adaptive;
    const std::uint64_t ends = std::uint64_t{index(packet.source)} << 32 | packet.target;
    const std::uint64_t name =
        by_packet ? packet.identity + first : ends ^ packet.flow * 0x9e3779b97f4a7c15u;
    chosen = scale(mix(hash_seed_ ^ name ^ std::uint64_t{index(at)} << 40), size);
  }
  if (settings_.routing == Routing::adaptive) {
    Picoseconds best = kForever;
    const std::uint32_t drawn = chosen;
    for (std::uint32_t i = 0; i < size && best > ready; ++i) {
      const std::uint32_t tried = drawn + i < size ? drawn + i : drawn + i - size;
      if (faults_.is_down(next[tried]) || credits_.waits(next[tried])) continue;
      const FabricPort& port = ports_[next[tried]];
      if (ready <= port.train_until) ++counters_.train_conflicts;
      if (port.busy_until >= best) continue;
      best = port.busy_until;
      chosen = tried;
    }
  }
  for (std::uint32_t i = 0; i < size; ++i) {
    const LinkId link = next[(chosen + i) % size];
    if (!faults_.is_down(link)) return link;
  }
  return kNoLink;
}

/// Whether the packets of a train leave back to back at every port that they use.
bool FabricCore::goes_as_one(SwitchId at, const Incoming& in, const TrainPart& part) {
  const Packet& packet = flights_[part.flight].packet;
  const std::uint32_t where = index(at);
  if (!packet.multicast) {
    const NextLinks next = topology_.next(at, HostId{packet.target});
    if (settings_.routing == Routing::adaptive && next.size() > 1) return false;
    const LinkId link = choose(next, at, packet, part.first, in.ready);
    return link != kNoLink && fits_as_one(link, in, part);
  }
  const MulticastTree& tree = trees_[packet.target];
  const LinkId back = topology_.reverse(in.link);
  for (const LinkId link : tree.links_of(at)) {
    if (link != back && !fits_as_one(link, in, part)) return false;
  }
  if (where >= topology_.leaves()) return true;
  for (std::uint32_t s = ports_.first_slice(where); s < ports_.first_slice(where + 1); ++s) {
    for (std::uint64_t rest = tree.hosts[s]; rest != 0; rest &= rest - 1) {
      const auto host = static_cast<HostId>(ports_.slice(s).first_host +
                                            static_cast<std::uint32_t>(std::countr_zero(rest)));
      if (host != packet.source && !fits_as_one(topology_.host_down(host), in, part)) return false;
    }
  }
  return true;
}

bool FabricCore::fits_as_one(LinkId link, const Incoming& in, const TrainPart& part) {
  const Packet& packet = flights_[part.flight].packet;
  const Picoseconds time = timing_.packet_time(link, packet);
  const Picoseconds start = std::max({in.ready, in.tail - time, ports_.busy_until(link)});
  const std::int64_t later = part.count - 1;
  const Picoseconds last_ready = std::max(in.ready, in.tail - time) + in.spacing * later;
  if (start + time * later < last_ready) return false;
  const bool from_switch = in.link != kNoLink;
  if (settings_.flow_control == FlowControl::lossy) {
    const Picoseconds room = timing_.full_queue_time(link);
    const Picoseconds last_depth = start + time * part.count - in.ready - in.spacing * later;
    return !from_switch || (start - in.ready + time <= room && last_depth <= room);
  }
  if (topology_.is_host_down(link)) return true;
  // The packets of a multicast train free their buffer at irregular intervals if the train leaves
  // at another rate than it arrives. One event cannot represent this, so the packets are forwarded
  // singly.
  if (packet.multicast && from_switch && time != in.spacing) return false;
  const std::uint64_t bytes = std::uint64_t{packet.wire_bytes} * part.count;
  return bytes <= settings_.credit_bytes && !credits_.waits(link) &&
         credits_.reclaim(link, start, bytes);
}

void FabricCore::send(LinkId link, Incoming& in, const TrainPart& part) {
  if (faults_.is_down(link)) return drop(link, in.ready, part, DropReason::link_down);
  const Packet& packet = flights_[part.flight].packet;
  FabricPort& port = ports_.alone(link);
  const Picoseconds time = timing_.packet_time(link, packet);
  const Picoseconds begin = std::max({in.ready, in.tail - time, port.busy_until});
  if (in.ready <= port.train_until) counters_.train_conflicts += part.count;
  if (settings_.flow_control == FlowControl::lossy) {
    const Picoseconds depth = begin - in.ready + time;
    if (in.link != kNoLink && depth > timing_.full_queue_time(link)) {
      return drop(link, in.ready, part, DropReason::queue_full);
    }
  } else if (!topology_.is_host_down(link)) {
    const std::uint64_t bytes = std::uint64_t{packet.wire_bytes} * part.count;
    if (credits_.waits(link) || !credits_.reclaim(link, begin, bytes))
      return wait_for_credit(link, in, part);
    credits_.take(link, bytes);
  }
  if (in.spacing.count > 0 && part.count > 1)
    port.train_until = in.ready + in.spacing * (part.count - 1);
  in.left_at = std::max(in.left_at, begin + time * part.count);
  in.left_spacing = time;
  start(link, begin, part);
}

void FabricCore::wait_for_credit(LinkId link, Incoming& in, const TrainPart& part) {
  Flight& flight = flights_[part.flight];
  ++flight.references;
  counters_.blocked += part.count;
  const Picoseconds time = timing_.packet_time(link, flight.packet);
  credits_.wait(link, in, part, std::max(in.ready, in.tail - time));
}

/// Sends the packets that wait at a port, as far as credits allow.
void FabricCore::wake(LinkId link) {
  credits_.woken(link);
  while (credits_.waits(link)) {
    const CreditWaiter waiter = credits_.first_waiter(link);
    const Packet packet = flights_[waiter.part.flight].packet;
    const Picoseconds begin = std::max({waiter.ready, ports_[link].busy_until, queue_.now()});
    if (!credits_.reclaim(link, begin, packet.wire_bytes)) {
      return credits_.wake_at_next_release(link);
    }
    credits_.remove_first_waiter(link);
    const Picoseconds end = begin + timing_.packet_time(link, packet);
    const bool injected = credits_.injected(waiter);
    if (faults_.is_down(link)) {
      drop(link, begin, waiter.part, DropReason::link_down);
    } else {
      credits_.take(link, packet.wire_bytes);
      start(link, begin, waiter.part);
    }
    credits_.copy_left(waiter.hold, end, packet.wire_bytes);
    unreference(waiter.part.flight);
    if (injected && waiter.part.first + 1 == packet.count && !packet.background) {
      sink_.departed(end, packet.source, packet);
    }
  }
}

/// Sends part of a train on a link; its first packet starts at `begin`.
void FabricCore::start(LinkId link, Picoseconds begin, const TrainPart& part) {
  const Packet& packet = flights_[part.flight].packet;
  FabricPort& port = ports_[link];
  port.busy_until = begin + timing_.packet_time(link, packet) * part.count;
  port.tx.packets += part.count;
  port.tx.wire_bytes += std::uint64_t{part.count} * packet.wire_bytes;
  port.tx.payload_bytes += std::uint64_t{part.count} * packet.payload_bytes;
  counters_.hops += part.count;
  if (observer_ != nullptr) {
    observer_->sent(link, begin, timing_.packet_time(link, packet), part.count, packet);
  }
  if (faults_.any_loss()) return send_with_loss(link, begin, part);
  push_arrival(link, begin, part);
}

/// Draws which packets of a train are lost on a link, and sends each run of consecutive packets
/// that are not lost.
void FabricCore::send_with_loss(LinkId link, Picoseconds begin, const TrainPart& part) {
  const Packet packet = flights_[part.flight].packet;
  const Picoseconds time = timing_.packet_time(link, packet);
  const auto when = [&](std::uint32_t i) { return begin + time * (i - part.first); };
  std::uint32_t first = part.first;
  const std::uint32_t end = std::uint32_t{part.first} + part.count;
  for (std::uint32_t i = first; i <= end; ++i) {
    if (i < end && !faults_.lost(link, packet, i)) continue;
    if (i > first) {
      const TrainPart run{part.flight, static_cast<std::uint16_t>(first),
                          static_cast<std::uint16_t>(i - first)};
      push_arrival(link, when(first), run);
    }
    first = i + 1;
    if (i == end) break;
    if (credits_.enabled() && !topology_.is_host_down(link)) {
      const Picoseconds latency = timing_.latency(link);
      credits_.release(link, {when(i) + time + latency * 2, {}, packet.wire_bytes, 1});
    }
    const TrainPart gone{part.flight, static_cast<std::uint16_t>(i), 1};
    drop(link, when(i) + timing_.take_up_time(link, packet), gone, DropReason::bit_error);
  }
}

void FabricCore::push_arrival(LinkId link, Picoseconds begin, const TrainPart& part) {
  Flight& flight = flights_[part.flight];
  ++flight.references;
  queue_.push({begin + timing_.take_up_time(link, flight.packet),
               event_key(EventKind::fabric_arrival, index(link)), part.pack()});
}

void FabricCore::drop(LinkId link, Picoseconds when, const TrainPart& part, DropReason reason) {
  counters_.dropped += part.count;
  counters_.in_flight -= part.count;
  // Only a packet with a bit error was counted in `tx`: any other is dropped before it starts.
  if (reason == DropReason::bit_error) faults_.count_loss(link, part.count);
  const Packet packet = flights_[part.flight].packet;
  if (packet.background) return;
  sink_.dropped({when, {}, part.first, part.count}, link, packet, reason);
}

}  // namespace tutti::sim
