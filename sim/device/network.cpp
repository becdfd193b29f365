#include "sim/device/network.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "sim/device/nic_settings.hpp"
#include "sim/device/software_connections.hpp"

namespace tutti::device::sim {

using tutti::sim::Arrival;
using tutti::sim::Event;
using tutti::sim::HostId;
using tutti::sim::kForever;
using tutti::sim::Packet;
using tutti::sim::Picoseconds;

namespace {

/// The size of a packet on the wire, headers included, in bytes.
std::uint32_t wire_bytes(const NicSettings& settings, const NicPacket& packet) {
  if (packet.kind == NicPacketKind::datagram) {
    return settings.datagram_header_bytes + packet.payload->size_bytes;
  }
  return packet.sequenced ? settings.reliable_header_bytes + packet.length
                          : settings.acknowledgement_bytes;
}

/// The key of the random draw by which the fabric decides whether a packet is lost. Each
/// transmission of the same packet has another key.
std::uint64_t identity_of(const NicPacket& packet, std::uint64_t transmission) {
  return draw(std::uint64_t{index(packet.source)} << 32 | index(packet.destination),
              packet.communicator, transmission);
}

/// Applies a forgery to the datagram that is the payload of a packet. The packet first gets its own
/// copy of the payload, because other packets share the original.
void forge(Forgery forgery, std::uint64_t times, PayloadStore& payloads, NicPacket& packet) {
  const Payload* const original = packet.payload;
  packet.payload = payloads.allocate(original->size_bytes, 1);
  const std::span<std::byte> bytes = packet.payload->bytes();
  std::memcpy(bytes.data(), original + 1, bytes.size());
  if (forgery == Forgery::address) packet.sender_host = UINT32_MAX;
  if (forgery == Forgery::reflection) packet.destination = packet.source;
  if (forgery == Forgery::counter) {
    const std::uint64_t counter = wire::counter_of(bytes.data()) + (std::uint64_t{1} << times % 32);
    std::memcpy(bytes.data() + wire::kCounterOffset, &counter, sizeof counter);
  }
  if (forgery == Forgery::bit) {
    const std::uint64_t bit = draw(packet.sender_host, times) % (8 * bytes.size());
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

}  // namespace

SimNetwork::SimNetwork(tutti::sim::EventQueue& queue, const tutti::sim::Topology& topology,
                       const tutti::sim::FabricSettings& settings, HostWaker& waker)
    : queue_(&queue),
      waker_(&waker),
      fabric_(queue, topology, settings, *this),
      ports_(topology.hosts()) {}

Result<std::uint32_t> SimNetwork::add_communicator(std::span<const HostId> hosts,
                                                   std::uint32_t subgroups, bool slot_exchange) {
  Communicator communicator;
  const std::uint32_t all = fabric_.topology().hosts();
  communicator.hosts.assign(hosts.begin(), hosts.end());
  communicator.rank_at.assign(all, kNone);
  communicator.endpoint_at.assign(all, nullptr);
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    if (index(hosts[r]) >= all || communicator.rank_at[index(hosts[r])] != kNone) {
      return failure(Code::invalid_argument,
                     "rank {} cannot be on host {}, because this host {}: give each rank a "
                     "different host from 0 to {}",
                     r, index(hosts[r]),
                     index(hosts[r]) >= all ? "does not exist" : "already has a rank", all - 1);
    }
    communicator.rank_at[index(hosts[r])] = static_cast<std::uint32_t>(r);
  }
  const auto number = static_cast<std::uint32_t>(communicators_.size());
  for (std::uint32_t s = 0; s < subgroups + (slot_exchange ? 1 : 0); ++s) {
    auto group = fabric_.create_group(hosts);
    if (!group) return group.status();
    communicator.groups.push_back(*group);
    groups_.resize(std::max<std::size_t>(groups_.size(), index(*group) + 1));
    groups_[index(*group)] = {number, s};
  }
  communicators_.push_back(std::move(communicator));
  return number;
}

Result<std::unique_ptr<Endpoint>> SimNetwork::open(std::uint32_t communicator,
                                                   const EndpointOptions& options,
                                                   const NicSettings& settings,
                                                   std::shared_ptr<FrameTap> tap) {
  if (Status status = check(settings); !status) return status;
  if (settings.connections == ConnectionKind::software) {
    if (Status status = rc::check(channel_config(settings, options)); !status) return status;
  }
  if (communicator >= communicators_.size() || options.rank == kNoRank ||
      options.size != communicators_[communicator].hosts.size() ||
      index(options.rank) >= options.size ||
      options.subgroups + (settings.slot_exchange ? 1 : 0) !=
          communicators_[communicator].groups.size()) {
    return failure(Code::invalid_argument,
                   "the options of rank {} ({} ranks, {} subgroups, slot_exchange {}) do not fit "
                   "the simulated communicator {}: pass the values that add_communicator() got",
                   index(options.rank), options.size, options.subgroups, settings.slot_exchange,
                   communicator);
  }
  Communicator& here = communicators_[communicator];
  const std::uint32_t host = index(here.hosts[index(options.rank)]);
  const auto number = static_cast<std::uint32_t>(endpoints_.size());
  auto endpoint =
      std::make_unique<SimEndpoint>(NicPort(*this, *queue_, *waker_, number, host), payloads_,
                                    options, settings, communicator, std::move(tap));
  endpoints_.push_back(endpoint.get());
  here.endpoint_at[host] = endpoint.get();
  return std::unique_ptr<Endpoint>(std::move(endpoint));
}

void SimNetwork::closed(std::uint32_t number) {
  const SimEndpoint* endpoint = std::exchange(endpoints_[number], nullptr);
  communicators_[endpoint->communicator()].endpoint_at[endpoint->host()] = nullptr;
  Port& port = ports_[endpoint->host()];
  RingQueue<Turn> rest;
  for (; !port.turns.empty(); port.turns.pop_front()) {
    if (port.turns.front().endpoint != endpoint) rest.push_back(port.turns.front());
  }
  port.turns = std::move(rest);
}

SimEndpoint* SimNetwork::endpoint_at(std::uint32_t communicator, HostId host) {
  return communicators_[communicator].endpoint_at[index(host)];
}

void SimNetwork::kill(HostId host) {
  ports_[index(host)].dead = true;
  for (Communicator& one : communicators_) {
    if (SimEndpoint* endpoint = one.endpoint_at[index(host)]) endpoint->kill();
  }
}

// ---- the ports ----------------------------------------------------------------------------------

bool SimNetwork::handle(const Event& event) {
  const tutti::sim::EventKind kind = kind_of(event);
  if (kind <= tutti::sim::EventKind::fabric_credit) {
    fabric_.handle(event);
  } else if (kind == kNicTransmit) {
    ports_[target_of(event)].scheduled = false;
    pump(target_of(event));
  } else if (kind == kNicTimer) {
    if (SimEndpoint* endpoint = endpoints_[target_of(event)]) endpoint->on_timer();
  } else if (kind == kNicReplay) {
    send_again(target_of(event));
  } else {
    return false;
  }
  return true;
}

void SimNetwork::ready(std::uint32_t number, std::uint32_t queue) {
  SimEndpoint* endpoint = endpoints_[number];
  ports_[endpoint->host()].turns.push_back({endpoint, queue});
  pump(endpoint->host());
}

void SimNetwork::pump(std::uint32_t host) {
  Port& port = ports_[host];
  const Picoseconds now = queue_->now();
  while (!port.turns.empty() && !port.dead && port.departures == 0 && port.busy_until <= now) {
    const Turn turn = port.turns.front();
    port.turns.pop_front();
    // If a queue has more to send, its next turn is requested here, because transmit() does not
    // request it.
    if (turn.endpoint->transmit(turn.queue)) port.turns.push_back(turn);
  }
  if (port.turns.empty() || port.dead || port.departures > 0 || port.scheduled) return;
  port.scheduled = true;
  queue_->push({.time = port.busy_until, .key = event_key(kNicTransmit, host), .argument = 0});
}

void SimNetwork::sent(Port& port, Picoseconds end) {
  if (end == kForever) {
    ++port.departures;
  } else {
    port.busy_until = end;
  }
}

void SimNetwork::departed(Picoseconds when, HostId from, const Packet& packet) {
  Port& port = ports_[index(from)];
  if (packet.background || port.departures == 0 || --port.departures > 0) return;
  port.busy_until = when;
  for (Communicator& one : communicators_) {
    if (SimEndpoint* endpoint = one.endpoint_at[index(from)]) {
      endpoint->departed(tutti::sim::to_instant(when));
    }
  }
  if (port.turns.empty() || port.dead || port.scheduled) return;
  port.scheduled = true;
  queue_->push({.time = when, .key = event_key(kNicTransmit, index(from)), .argument = 0});
}

// ---- sending ------------------------------------------------------------------------------------

Picoseconds SimNetwork::inject_group(std::uint32_t number, const wire::Header& header,
                                     std::uint64_t cookie, std::uint32_t bytes,
                                     std::uint32_t count) {
  SimEndpoint& from = *endpoints_[number];
  const Communicator& communicator = communicators_[from.communicator()];
  Packet packet = Packet::to_group(communicator.groups[header.subgroup],
                                   bytes + from.nic().settings.multicast_header_bytes, bytes);
  packet.cookie = cookie;
  packet.count = static_cast<std::uint16_t>(count);
  packet.flow = number;
  const HostId host{from.host()};
  const Picoseconds end = fabric_.inject(queue_->now(), host, packet);
  sent(ports_[from.host()], end);
  return end;
}

Picoseconds SimNetwork::multicast(std::uint32_t number, const wire::Header& header,
                                  const MulticastBurst& burst) {
  if (burst.count == 0) return inject_group(number, header, 0, 0, 1);
  SimEndpoint& from = *endpoints_[number];
  const auto receivers =
      static_cast<std::uint32_t>(communicators_[from.communicator()].hosts.size() - 1);
  const auto full = static_cast<std::uint32_t>(burst.data.size() / burst.chunk_bytes);
  const auto rest = static_cast<std::uint32_t>(burst.data.size() % burst.chunk_bytes);
  if (!from.nic().settings.carry_bytes) {
    const auto cookie = [&](std::uint32_t psn) { return std::uint64_t{header.epoch} << 32 | psn; };
    Picoseconds end{};
    if (full > 0) end = inject_group(number, header, cookie(header.psn), burst.chunk_bytes, full);
    if (rest > 0) end = inject_group(number, header, cookie(header.psn + full), rest, 1);
    return end;
  }
  Picoseconds end = queue_->now();
  wire::Header one = header;
  for (std::size_t at = 0; at < burst.data.size(); ++one.psn) {
    const std::size_t size = std::min<std::size_t>(burst.chunk_bytes, burst.data.size() - at);
    Payload* payload =
        make_chunk(payloads_, one, burst.data.subspan(at, size), std::max(receivers, 1u));
    if (receivers == 0) payloads_.release(payload);
    end = inject_group(number, one, reinterpret_cast<std::uintptr_t>(payload),
                       static_cast<std::uint32_t>(size), 1);
    at += size;
  }
  return end;
}

std::uint32_t SimNetwork::host_of(std::uint32_t number, Rank rank) const {
  return index(communicators_[endpoints_[number]->communicator()].hosts[index(rank)]);
}

// The fabric's payload counters count user data only; protocol messages enter only the counters of
// bytes on the wire.
void SimNetwork::unicast(std::uint32_t number, const NicPacket& nic_packet) {
  SimEndpoint& from = *endpoints_[number];
  const Communicator& communicator = communicators_[from.communicator()];
  const NicSettings& settings = from.nic().settings;
  Packet packet = Packet::to_host(communicator.hosts[index(nic_packet.destination)],
                                  wire_bytes(settings, nic_packet),
                                  nic_packet.kind == NicPacketKind::send ? 0 : nic_packet.length);
  packet.cookie = packets_.add(nic_packet);
  packets_[static_cast<std::uint32_t>(packet.cookie)].sender_host = from.host();
  packet.identity = identity_of(nic_packet, from.nic().transmissions++);
  packet.flow = number;
  sent(ports_[from.host()], fabric_.inject(queue_->now(), HostId{from.host()}, packet));
}

// ---- arrivals -----------------------------------------------------------------------------------

void SimNetwork::deliver_group(const Arrival& arrival, HostId at, const Packet& packet,
                               const GroupOwner& owner) {
  Communicator& communicator = communicators_[owner.communicator];
  SimEndpoint* endpoint = communicator.endpoint_at[index(at)];
  const std::uint32_t source = communicator.rank_at[index(packet.source)];
  auto* payload = reinterpret_cast<Payload*>(packet.cookie);
  if (endpoint != nullptr &&
      group_faults_.loses(at, endpoint->nic().joined, tutti::sim::to_instant(arrival.time))) {
    group_losses_ += arrival.count;
    if (endpoint->nic().settings.carry_bytes && packet.payload_bytes > 0)
      payloads_.release(payload);
    return;
  }
  if (packet.payload_bytes == 0) {
    if (endpoint != nullptr) endpoint->on_probe(owner.subgroup, rank_of(source));
    return;
  }
  if (endpoint == nullptr) return;
  const Nanoseconds latency = endpoint->nic().settings.receive_latency;
  StagedChunk chunk{.source = rank_of(source), .size_bytes = packet.payload_bytes};
  if (endpoint->nic().settings.carry_bytes) {
    const auto header = wire::decode(payload->bytes());
    chunk.epoch = header->epoch;
    chunk.psn = header->psn;
    chunk.payload = payload;
    chunk.visible = tutti::sim::to_instant(arrival.time) + latency;
    endpoint->on_chunk(owner.subgroup, chunk);
    return;
  }
  chunk.epoch = static_cast<std::uint32_t>(packet.cookie >> 32);
  for (std::uint32_t i = 0; i < arrival.count; ++i) {
    chunk.psn = static_cast<std::uint32_t>(packet.cookie) + arrival.first + i;
    chunk.visible = tutti::sim::to_instant(arrival.time_of(i)) + latency;
    endpoint->on_chunk(owner.subgroup, chunk);
  }
}

void SimNetwork::arrived(const Arrival& arrival, HostId at, const Packet& packet) {
  if (packet.multicast) {
    deliver_group(arrival, at, packet, groups_[packet.target]);
  } else {
    deliver_reliable(packet);
  }
}

void SimNetwork::arrived_on_leaf(const Arrival& arrival, HostId first, std::uint64_t hosts,
                                 const Packet& packet) {
  const GroupOwner owner = groups_[packet.target];
  for (; hosts != 0; hosts &= hosts - 1) {
    const auto at = static_cast<std::uint32_t>(std::countr_zero(hosts));
    deliver_group(arrival, HostId{index(first) + at}, packet, owner);
  }
}

void SimNetwork::deliver_reliable(const Packet& packet) {
  const NicPacket nic_packet = packets_.take(static_cast<std::uint32_t>(packet.cookie));
  const HostId to{packet.target};
  const Instant now = tutti::sim::to_instant(queue_->now());
  if (path_faults_.loses(packet.source, to, packet.wire_bytes, now)) {
    ++path_losses_;
    payloads_.release(nic_packet.payload);
    return;
  }
  if (const Replay* replay = path_faults_.recorded(packet.source, to)) record(*replay, nic_packet);
  hand_over(nic_packet);
}

void SimNetwork::record(const Replay& replay, const NicPacket& packet) {
  if (packet.payload != nullptr) ++packet.payload->references;
  recordings_.push_back({.replay = replay, .packet = packet});
  recordings_.back().packet.stranger = true;
  schedule_replay(static_cast<std::uint32_t>(recordings_.size() - 1), replay.after);
}

void SimNetwork::schedule_replay(std::uint32_t recording, Nanoseconds after) {
  queue_->push({.time = queue_->now() + tutti::sim::nanoseconds(after.count()),
                .key = event_key(kNicReplay, recording),
                .argument = 0});
}

void SimNetwork::send_again(std::uint32_t recording) {
  Recording& one = recordings_[recording];
  NicPacket packet = one.packet;
  if (one.replay.forgery != Forgery::none && packet.kind == NicPacketKind::datagram) {
    forge(one.replay.forgery, one.times, payloads_, packet);
  } else if (packet.payload != nullptr) {
    ++packet.payload->references;
  }
  ++one.times;
  ++replayed_;
  hand_over(packet);
  if (one.replay.every.count() > 0) return schedule_replay(recording, one.replay.every);
  payloads_.release(one.packet.payload);
}

void SimNetwork::hand_over(const NicPacket& packet) {
  Communicator& communicator = communicators_[packet.communicator];
  SimEndpoint* endpoint =
      communicator.endpoint_at[index(communicator.hosts[index(packet.destination)])];
  if (endpoint == nullptr) {
    payloads_.release(packet.payload);
  } else {
    endpoint->on_packet(packet);
  }
}

void SimNetwork::dropped(const Arrival& lost, tutti::sim::LinkId link, const Packet& packet,
                         tutti::sim::DropReason reason) {
  if (drop_observer_ != nullptr) drop_observer_->dropped(lost, link, packet, reason);
  if (!packet.multicast) {
    payloads_.release(packets_.take(static_cast<std::uint32_t>(packet.cookie)).payload);
    return;
  }
  const GroupOwner& owner = groups_[packet.target];
  const Communicator& communicator = communicators_[owner.communicator];
  SimEndpoint* from = communicator.endpoint_at[index(packet.source)];
  if (from == nullptr || !from->nic().settings.carry_bytes || packet.payload_bytes == 0) return;
  // Releases the payload references of the lost copies: all references after a loss on the link
  // from a host, one reference after a loss on the link to a host. After a loss between switches
  // the number of lost copies is unknown, so the payload is retained until the simulation ends.
  auto* payload = reinterpret_cast<Payload*>(packet.cookie);
  const tutti::sim::LinkClass link_class = fabric_.topology().link(link).link_class;
  if (link_class == tutti::sim::LinkClass::host_down) payloads_.release(payload);
  if (link_class == tutti::sim::LinkClass::host_up) {
    payloads_.release(payload, payload->references);
  }
}

}  // namespace tutti::device::sim
