// Forwarding of a packet: arrival at a port, choice of the next link, departure.
#include "sim/fabric/core/fabric_core.hpp"

namespace tutti::sim {
namespace {

/// Bytes that a cut-through switch reads before it forwards.
constexpr std::uint32_t kLeadBytes = 64;

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
  std::uint64_t& sent = sent_by_host_[tutti::sim::index(from)];
  if (packet.identity == 0) {
    flight.packet.identity = (std::uint64_t{tutti::sim::index(from)} + 1) << 40 | sent;
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
  const Picoseconds time = packet_time(link, packet);
  Incoming in{.link = link,
              .ready = event.time + settings_.switch_latency,
              .spacing = time,
              .tail = event.time + settings_.switch_latency};
  if (settings_.forwarding == Forwarding::cut_through) {
    in.tail += time + latencies_[topology_.link(link).spec] - take_up_time(link, packet);
  }
  in.left_at = in.ready;
  if (part.count > 1 && !goes_as_one(at, in, part)) {
    // Forwards one packet at a time: the rest comes again when its own first packet arrives.
    TrainPart rest = part;
    ++rest.first;
    --rest.count;
    ++flights_[part.flight].references;
    queue_.push({event.time + time, event.key, rest.pack()});
    part.count = 1;
  }
  FabricPort& port = ports_[tutti::sim::index(link)];
  port.rx.packets += part.count;
  port.rx.wire_bytes += std::uint64_t{part.count} * packet.wire_bytes;
  port.rx.payload_bytes += std::uint64_t{part.count} * packet.payload_bytes;
  forward(at, in, part);
  if (!credits_.empty()) finish_input(in, part);
  unreference(part.flight);
}

void FabricCore::deliver(const Event& event, const TrainPart& part, LinkId link) {
  const Packet packet = flights_[part.flight].packet;
  FabricPort& port = ports_[tutti::sim::index(link)];
  port.rx.packets += part.count;
  port.rx.wire_bytes += std::uint64_t{part.count} * packet.wire_bytes;
  port.rx.payload_bytes += std::uint64_t{part.count} * packet.payload_bytes;
  counters_.delivered += part.count;
  counters_.in_flight -= part.count;
  unreference(part.flight);
  if (packet.background) return;
  const auto host = static_cast<HostId>(tutti::sim::index(link) - topology_.hosts());
  sink_.arrived({event.time, packet_time(link, packet), part.first, part.count}, host, packet);
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
  const std::uint32_t where = tutti::sim::index(at);
  const Group* group = &groups_[packet.target];
  const LinkId back = topology_.reverse(in.link);
  for (std::uint32_t i = group->first_links[where]; i < group->first_links[where + 1]; ++i) {
    if (group->links[i] == back) continue;
    counters_.in_flight += part.count;
    send(group->links[i], in, part);
    group = &groups_[packet.target];  // a sink that handles a drop may have created a group
  }
  if (where < topology_.leaves()) {
    for (std::uint32_t s = first_slices_[where]; s < first_slices_[where + 1]; ++s) {
      std::uint64_t hosts = groups_[packet.target].hosts[s];
      const std::uint32_t own = tutti::sim::index(packet.source) - slices_[s].first_host;
      if (own < 64) hosts &= ~(std::uint64_t{1} << own);
      if (hosts != 0) send_to_leaf(s, hosts, in, part);
    }
  }
  counters_.in_flight -= part.count;
}

/// Chooses one of the shortest links; kNoLink if all are down.
LinkId FabricCore::choose(const NextLinks& next, SwitchId at, const Packet& packet,
                          std::uint32_t first, Picoseconds ready) {
  const std::uint32_t size = next.size();
  if (size == 1 && down_.empty()) return next[0];
  std::uint32_t chosen = 0;
  if (settings_.routing == Routing::destination) {
    std::uint32_t number = packet.target;
    for (std::uint32_t i = 1; i < topology_.level(at); ++i) number /= size;
    chosen = number % size;
  } else {
    const bool by_packet = settings_.routing == Routing::adaptive;
    const std::uint64_t ends =
        std::uint64_t{tutti::sim::index(packet.source)} << 32 | packet.target;
    const std::uint64_t name =
        by_packet ? packet.identity + first : ends ^ packet.flow * 0x9e3779b97f4a7c15u;
    chosen = scale(mix(hash_seed_ ^ name ^ std::uint64_t{tutti::sim::index(at)} << 40), size);
  }
  if (settings_.routing == Routing::adaptive) {
    Picoseconds best = kForever;
    const std::uint32_t drawn = chosen;
    for (std::uint32_t i = 0; i < size && best > ready; ++i) {
      const std::uint32_t tried = drawn + i < size ? drawn + i : drawn + i - size;
      if (is_down(next[tried]) || waits(next[tried])) continue;
      const FabricPort& port = ports_[tutti::sim::index(next[tried])];
      if (ready <= port.train_until) ++counters_.train_conflicts;
      if (port.busy_until >= best) continue;
      best = port.busy_until;
      chosen = tried;
    }
  }
  for (std::uint32_t i = 0; i < size; ++i) {
    const LinkId link = next[(chosen + i) % size];
    if (!is_down(link)) return link;
  }
  return kNoLink;
}

/// Whether the packets of a train leave back to back at every port that they use.
bool FabricCore::goes_as_one(SwitchId at, const Incoming& in, const TrainPart& part) {
  const Packet& packet = flights_[part.flight].packet;
  const std::uint32_t where = tutti::sim::index(at);
  if (!packet.multicast) {
    const NextLinks next = topology_.next(at, HostId{packet.target});
    if (settings_.routing == Routing::adaptive && next.size() > 1) return false;
    const LinkId link = choose(next, at, packet, part.first, in.ready);
    return link != kNoLink && fits_as_one(link, in, part);
  }
  const Group& group = groups_[packet.target];
  const LinkId back = topology_.reverse(in.link);
  for (std::uint32_t i = group.first_links[where]; i < group.first_links[where + 1]; ++i) {
    if (group.links[i] != back && !fits_as_one(group.links[i], in, part)) return false;
  }
  if (where >= topology_.leaves()) return true;
  for (std::uint32_t s = first_slices_[where]; s < first_slices_[where + 1]; ++s) {
    for (std::uint64_t rest = group.hosts[s]; rest != 0; rest &= rest - 1) {
      const auto host = static_cast<HostId>(slices_[s].first_host +
                                            static_cast<std::uint32_t>(std::countr_zero(rest)));
      if (host != packet.source && !fits_as_one(topology_.host_down(host), in, part)) return false;
    }
  }
  return true;
}

bool FabricCore::fits_as_one(LinkId link, const Incoming& in, const TrainPart& part) {
  const Packet& packet = flights_[part.flight].packet;
  const Picoseconds time = packet_time(link, packet);
  const Picoseconds start = std::max({in.ready, in.tail - time, busy_until(link)});
  const std::int64_t later = part.count - 1;
  const Picoseconds last_ready = std::max(in.ready, in.tail - time) + in.spacing * later;
  if (start + time * later < last_ready) return false;
  const bool from_switch = in.link != kNoLink;
  if (settings_.flow_control == FlowControl::lossy) {
    const Picoseconds room = queue_times_[topology_.link(link).spec];
    const Picoseconds last_depth = start + time * part.count - in.ready - in.spacing * later;
    return !from_switch || (start - in.ready + time <= room && last_depth <= room);
  }
  if (topology_.is_host_down(link)) return true;
  // Copies of different speed leave a buffer at irregular intervals, so they are kept separate.
  if (packet.multicast && from_switch && time != in.spacing) return false;
  const std::uint64_t bytes = std::uint64_t{packet.wire_bytes} * part.count;
  return bytes <= settings_.credit_bytes && !waits(link) && has_credit(link, start, bytes);
}

void FabricCore::send(LinkId link, Incoming& in, const TrainPart& part) {
  if (is_down(link)) return drop(link, in.ready, part, DropReason::link_down);
  leave_slice(link);
  const Packet& packet = flights_[part.flight].packet;
  FabricPort& port = ports_[tutti::sim::index(link)];
  const Picoseconds time = packet_time(link, packet);
  const Picoseconds begin = std::max({in.ready, in.tail - time, port.busy_until});
  if (in.ready <= port.train_until) counters_.train_conflicts += part.count;
  if (settings_.flow_control == FlowControl::lossy) {
    const Picoseconds depth = begin - in.ready + time;
    if (in.link != kNoLink && depth > queue_times_[topology_.link(link).spec]) {
      return drop(link, in.ready, part, DropReason::queue_full);
    }
  } else if (!topology_.is_host_down(link)) {
    const std::uint64_t bytes = std::uint64_t{packet.wire_bytes} * part.count;
    if (waits(link) || !has_credit(link, begin, bytes)) return wait_for_credit(link, in, part);
    credits_[tutti::sim::index(link)].taken_bytes += bytes;
  }
  if (in.spacing.count > 0 && part.count > 1)
    port.train_until = in.ready + in.spacing * (part.count - 1);
  in.left_at = std::max(in.left_at, begin + time * part.count);
  in.left_spacing = time;
  start(link, begin, part);
}

/// Puts a part on a link, starting at `begin`.
void FabricCore::start(LinkId link, Picoseconds begin, const TrainPart& part) {
  const Packet& packet = flights_[part.flight].packet;
  FabricPort& port = ports_[tutti::sim::index(link)];
  port.busy_until = begin + packet_time(link, packet) * part.count;
  port.tx.packets += part.count;
  port.tx.wire_bytes += std::uint64_t{part.count} * packet.wire_bytes;
  port.tx.payload_bytes += std::uint64_t{part.count} * packet.payload_bytes;
  counters_.hops += part.count;
  if (observer_ != nullptr) {
    observer_->sent(link, begin, packet_time(link, packet), part.count, packet);
  }
  if (any_loss_) return send_with_loss(link, begin, part);
  push_arrival(link, begin, part);
}

void FabricCore::push_arrival(LinkId link, Picoseconds begin, const TrainPart& part) {
  Flight& flight = flights_[part.flight];
  ++flight.references;
  queue_.push({begin + take_up_time(link, flight.packet),
               event_key(EventKind::fabric_arrival, tutti::sim::index(link)), part.pack()});
}

Picoseconds FabricCore::take_up_time(LinkId link, const Packet& packet) const {
  const Link& wire = topology_.link(link);
  const bool whole = settings_.forwarding == Forwarding::store_and_forward ||
                     topology_.is_host_down(link) || packet.wire_bytes <= kLeadBytes;
  const Picoseconds time =
      whole ? packet_time(link, packet) : std::max(speed(link).time_of(kLeadBytes), picoseconds(1));
  return time + latencies_[wire.spec];
}

void FabricCore::drop(LinkId link, Picoseconds when, const TrainPart& part, DropReason reason) {
  counters_.dropped += part.count;
  counters_.in_flight -= part.count;
  const Packet packet = flights_[part.flight].packet;
  if (packet.background) return;
  sink_.dropped({when, {}, part.first, part.count}, link, packet, reason);
}

}  // namespace tutti::sim
