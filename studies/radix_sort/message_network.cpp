#include "studies/radix_sort/message_network.hpp"

#include <algorithm>

namespace tutti::simulation {

using sim::Event;
using sim::EventKind;
using sim::Picoseconds;

namespace {

// Event: a message has reached its sender's interface. The target is the message.
constexpr EventKind kPosted = EventKind{16};
// Event: a packet has left a host. The target is the host, the argument is the packet's cookie.
constexpr EventKind kLeft = EventKind{17};
// Event: a message between ranks of one host has passed the interface.
constexpr EventKind kPassed = EventKind{18};

std::uint64_t cookie_of(std::uint32_t record, bool last) {
  return std::uint64_t{record} << 1 | (last ? 1 : 0);
}
std::uint32_t record_of(std::uint64_t cookie) { return static_cast<std::uint32_t>(cookie >> 1); }
bool is_last(std::uint64_t cookie) { return (cookie & 1) != 0; }

}  // namespace

MessageNetwork::MessageNetwork(sim::EventQueue& queue, const sim::Topology& topology,
                               const MessageNetworkSettings& settings, MessageSink& sink)
    : queue_(queue),
      settings_(settings),
      sink_(sink),
      fabric_(queue, topology, settings.fabric, *this),
      speed_(
          topology.specs()[topology.link(topology.host_up(sim::HostId{0})).spec].bits_per_second),
      ports_(topology.hosts()),
      within_free_(topology.hosts()) {}

void MessageNetwork::send(Picoseconds at, const NetworkMessage& message) {
  ++sent_;
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(messages_.size()));
    messages_.emplace_back();
  }
  const std::uint32_t record = free_.back();
  free_.pop_back();
  const std::uint64_t packets =
      std::max<std::uint64_t>((message.bytes + settings_.mtu_bytes - 1) / settings_.mtu_bytes, 1);
  messages_[record] = {message, message.bytes, packets, packets, false};
  queue_.push({at, event_key(kPosted, record), sent_});
}

bool MessageNetwork::handle(const Event& event) {
  const EventKind kind = kind_of(event);
  if (kind == kPosted) {
    take_up(target_of(event));
  } else if (kind == kLeft) {
    on_packet_left(target_of(event), event.argument, event.time);
  } else if (kind == kPassed) {
    leave(target_of(event), event.time);
    deliver(target_of(event), event.time);
  } else if (kind < EventKind::background) {
    fabric_.handle(event);
  } else {
    return false;
  }
  return true;
}

void MessageNetwork::take_up(std::uint32_t at) {
  const std::uint32_t host = host_of(messages_[at].message.from);
  if (host == host_of(messages_[at].message.to)) return pass_within_host(at);
  ports_[host].open.push_back(at);
  pump(host);
}

void MessageNetwork::pump(std::uint32_t host) {
  Port& port = ports_[host];
  while (!port.open.empty() && port.posted < settings_.posted_ahead) {
    const std::uint32_t at = port.open.front();
    const bool last = send_packet(at);
    ++port.posted;
    if (!last && ++port.burst < settings_.burst_packets) continue;
    port.burst = 0;
    port.open.pop_front();
    if (!last) port.open.push_back(at);
  }
}

/// Sends one packet of a message; returns whether it was the last packet.
bool MessageNetwork::send_packet(std::uint32_t at) {
  Record& record = messages_[at];
  const std::uint64_t rest = (--record.to_send) * settings_.mtu_bytes;
  // The first packet of a message carries the bytes that fill no whole packet, so that all later
  // packets are full.
  const std::uint64_t payload = record.unsent_bytes - std::min(record.unsent_bytes, rest);
  record.unsent_bytes -= payload;
  const std::uint32_t from = host_of(record.message.from);
  sim::Packet packet =
      sim::Packet::to_host(sim::HostId{host_of(record.message.to)},
                           static_cast<std::uint32_t>(payload) + settings_.header_bytes,
                           static_cast<std::uint32_t>(payload));
  const bool last = record.to_send == 0;
  packet.cookie = cookie_of(at, last);
  packet.flow = record.message.from;
  const Picoseconds left = fabric_.inject(queue_.now(), sim::HostId{from}, packet);
  if (left != sim::kForever) queue_.push({left, event_key(kLeft, from), packet.cookie});
  return last;
}

void MessageNetwork::pass_within_host(std::uint32_t at) {
  const NetworkMessage& message = messages_[at].message;
  Picoseconds& free = within_free_[host_of(message.from)];
  free = std::max(free, queue_.now()) + speed_.time_of(message.bytes + settings_.header_bytes);
  messages_[at].to_arrive = 1;
  queue_.push({free, event_key(kPassed, at), 0});
}

void MessageNetwork::departed(Picoseconds when, sim::HostId from, const sim::Packet& packet) {
  queue_.push({when, event_key(kLeft, index(from)), packet.cookie});
}

void MessageNetwork::on_packet_left(std::uint32_t host, std::uint64_t cookie, Picoseconds when) {
  --ports_[host].posted;
  if (is_last(cookie)) leave(record_of(cookie), when);
  pump(host);
}

void MessageNetwork::arrived(const sim::Arrival& arrival, sim::HostId, const sim::Packet& packet) {
  deliver(record_of(packet.cookie), arrival.last());
}

void MessageNetwork::leave(std::uint32_t at, Picoseconds when) {
  messages_[at].has_left = true;
  const NetworkMessage message = messages_[at].message;
  release(at);
  sink_.left(message, when);
}

void MessageNetwork::deliver(std::uint32_t at, Picoseconds when) {
  if (--messages_[at].to_arrive > 0) return;
  const NetworkMessage message = messages_[at].message;
  release(at);
  sink_.delivered(message, when);
}

/// Frees a message's record once the message has left and arrived. With short cables, the arrival
/// may be handled before the departure.
void MessageNetwork::release(std::uint32_t at) {
  if (messages_[at].has_left && messages_[at].to_arrive == 0) free_.push_back(at);
}

}  // namespace tutti::simulation
