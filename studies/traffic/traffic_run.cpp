#include "studies/traffic/traffic_run.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"

namespace tutti::sim {
namespace {

/// Event detail for "a packet or train has left a rank's host".
constexpr std::uint32_t kLeft = 1;
/// The last kTrainTail packets of a multicast are sent one by one, not in a train. The activation
/// message that follows may reach a port before they do, and its time is exact only if no train is
/// arriving at this port.
constexpr std::uint64_t kTrainTail = 4;

std::uint32_t packets_of(std::uint64_t bytes, std::uint32_t mtu_bytes) {
  return static_cast<std::uint32_t>(
      std::max<std::uint64_t>((bytes + mtu_bytes - 1) / mtu_bytes, 1));
}

}  // namespace

const char* to_string(CountingRule rule) {
  constexpr const char* kNames[] = {"LINK", "RXTX", "TX", "RX", "FAB"};
  return kNames[static_cast<std::size_t>(rule)];
}

TrafficCount count_traffic(const Fabric& fabric, CountingRule rule) {
  TrafficCount total;
  for (std::uint32_t i = 0; i < fabric.topology().links(); ++i) {
    const LinkId link{i};
    const LinkClass link_class = fabric.topology().link(link).link_class;
    const bool from_switch = link_class != LinkClass::host_up;
    const bool to_switch = link_class != LinkClass::host_down;
    const bool either = rule == CountingRule::rx_tx;
    if (rule == CountingRule::link) total += fabric.tx(link);
    if (rule == CountingRule::fabric && from_switch && to_switch) total += fabric.tx(link);
    if ((rule == CountingRule::tx || either) && from_switch) total += fabric.tx(link);
    if ((rule == CountingRule::rx || either) && to_switch) total += fabric.rx(link);
  }
  return total;
}

TrafficRun::TrafficRun(EventQueue& queue, const MessagePlan& plan, std::vector<HostId> hosts,
                       const TrafficSettings& settings)
    : queue_(queue), plan_(plan), hosts_(std::move(hosts)), settings_(settings) {
  index_dependents();
}

void TrafficRun::index_dependents() {
  const auto messages = static_cast<MessageIndex>(plan_.messages().size());
  missing_needs_.resize(messages);
  first_dependents_.assign(messages + 1, 0);
  for (MessageIndex m = 0; m < messages; ++m) {
    missing_needs_[m] = static_cast<std::uint32_t>(plan_.needs(m).size());
    for (const MessageIndex need : plan_.needs(m)) ++first_dependents_[need + 1];
  }
  for (MessageIndex m = 0; m < messages; ++m) first_dependents_[m + 1] += first_dependents_[m];
  dependents_.resize(first_dependents_.back());
  std::vector<std::uint32_t> next(first_dependents_.begin(), first_dependents_.end() - 1);
  for (MessageIndex m = 0; m < messages; ++m) {
    for (const MessageIndex need : plan_.needs(m)) dependents_[next[need]++] = m;
  }
}

Status TrafficRun::check_plan(const Fabric& fabric) const {
  if (hosts_.size() != plan_.ranks()) {
    return failure(Code::invalid_argument,
                   "{} hosts are given for a plan of {} ranks: give one host per rank",
                   hosts_.size(), plan_.ranks());
  }
  for (MessageIndex m = 0; m < plan_.messages().size(); ++m) {
    for (const MessageIndex need : plan_.needs(m)) {
      const Message& needed = plan_.messages()[need];
      if (needed.to != plan_.messages()[m].from || needed.reduced) {
        return failure(
            Code::invalid_argument,
            "message {} cannot wait for message {}: let a message wait only for messages to its "
            "own sender, not for multicasts or contributions",
            m, need);
      }
    }
  }
  for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank) {
    if (index(hosts_[rank]) >= fabric.topology().hosts()) {
      return failure(Code::invalid_argument,
                     "rank {} is on host {}, which the network does not have: use hosts below {}",
                     rank, index(hosts_[rank]), fabric.topology().hosts());
    }
  }
  return {};
}

/// Creates the multicast group of all ranks if the plan needs one.
Status TrafficRun::join_group(Fabric& fabric, TreeChoice tree) {
  const auto by_tree = [](const Message& one) { return one.to == kAllRanks || one.reduced; };
  const std::span<const Message> messages = plan_.messages();
  if (std::none_of(messages.begin(), messages.end(), by_tree)) return {};
  auto group = fabric.create_group(hosts_, tree);
  if (!group) return group.status();
  group_ = *group;
  return {};
}

Status TrafficRun::begin(Fabric& fabric, Picoseconds start, TreeChoice tree) {
  if (Status refused = check_plan(fabric); !refused) return refused;
  if (Status joined = join_group(fabric, tree); !joined) return joined;
  fabric_ = &fabric;
  finish_.assign(plan_.ranks(), Picoseconds{});
  ports_.resize(plan_.ranks());
  rank_of_host_.assign(fabric.topology().hosts(), 0);
  together_.assign(fabric.topology().hosts(), {});
  for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank) {
    rank_of_host_[index(hosts_[rank])] = rank;
  }
  for (const Message& message : plan_.messages()) {
    const std::uint32_t packets = packets_of(message.bytes, settings_.mtu_bytes);
    missing_packets_.push_back(packets);
    // All contributions to one result arrive as one message, so only the packets of the first
    // contributing rank are counted.
    std::uint64_t receivers = message.to == kAllRanks ? plan_.ranks() - 1 : 1;
    if (message.reduced && message.from != (message.to == 0 ? 1 : 0)) receivers = 0;
    undelivered_ += packets * receivers;
  }
  for (MessageIndex m = 0; m < plan_.messages().size(); ++m) {
    if (missing_needs_[m] == 0) send(m, start);
  }
  return {};
}

void TrafficRun::send(MessageIndex at, Picoseconds now) {
  const std::uint32_t rank = plan_.messages()[at].from;
  ports_[rank].waiting.push_back(at);
  pump(rank, now);
}

/// The next packet or train of the message that the port is sending.
Packet TrafficRun::next_packet(Port& port, bool& last) const {
  const MessageIndex at = port.waiting[port.next];
  const Message& message = plan_.messages()[at];
  const bool to_all = message.to == kAllRanks;
  const std::uint64_t left = message.bytes - port.sent_bytes;
  const auto payload =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(left, settings_.mtu_bytes));
  const std::uint32_t wire =
      payload + (to_all ? settings_.multicast_header_bytes : settings_.unicast_header_bytes);
  Packet packet;
  if (message.reduced) {
    const std::uint64_t reduction = std::uint64_t{message.to} << 32 | port.sent_packets;
    packet = Packet::contribution(group_, hosts_[message.to], reduction, wire, payload);
  } else {
    packet = to_all ? Packet::to_group(group_, wire, payload)
                    : Packet::to_host(hosts_[message.to], wire, payload);
    packet.cookie = at;
    packet.flow = at;
  }
  const std::uint64_t apart = to_all ? kTrainTail : 0;
  const std::uint64_t full = left / settings_.mtu_bytes;
  if (settings_.trains && full > apart) {
    packet.count = static_cast<std::uint16_t>(std::min<std::uint64_t>(full - apart, 0x7fff));
  }
  port.sent_packets += packet.count;
  port.sent_bytes += std::uint64_t{payload} * packet.count;
  last = port.sent_bytes == message.bytes;
  return packet;
}

void TrafficRun::pump(std::uint32_t rank, Picoseconds now) {
  Port& port = ports_[rank];
  const std::uint32_t ahead = settings_.posted_ahead;
  while (port.next < port.waiting.size() && (ahead == 0 || port.posted < ahead)) {
    bool last = false;
    const Packet packet = next_packet(port, last);
    if (last) {
      ++port.next;
      port.sent_bytes = port.sent_packets = 0;
    }
    const Picoseconds left_at = fabric_->inject(now, hosts_[rank], packet);
    if (ahead == 0) continue;
    ++port.posted;
    if (left_at != kForever) {
      queue_.push({left_at, event_key(EventKind::traffic, rank, kLeft), 0});
    }
  }
  if (port.next == port.waiting.size()) {
    port.waiting.clear();
    port.next = 0;
  }
}

void TrafficRun::departed(Picoseconds when, HostId from, const Packet&) {
  if (settings_.posted_ahead == 0) return;
  queue_.push({when, event_key(EventKind::traffic, rank_of_host_[index(from)], kLeft), 0});
}

void TrafficRun::arrived(const Arrival& arrival, HostId at, const Packet& packet) {
  undelivered_ -= arrival.count;
  const std::uint32_t rank = rank_of_host_[index(at)];
  finish_[rank] = std::max(finish_[rank], arrival.last());
  if (packet.multicast || packet.reduced) return;
  const auto message = static_cast<MessageIndex>(packet.cookie);
  if ((missing_packets_[message] -= arrival.count) != 0) return;
  const Picoseconds ready = arrival.last() + settings_.message_overhead;
  if (ready == queue_.now()) return complete(message, ready);
  queue_.push({ready, event_key(EventKind::traffic, message), 0});
}

/// Records the arrival of packets of a multicast at several hosts of a leaf switch. These hosts
/// share one entry, and only the time of the last packet matters.
void TrafficRun::arrived_on_leaf(const Arrival& arrival, HostId first, std::uint64_t hosts,
                                 const Packet& packet) {
  if (!packet.multicast) return Sink::arrived_on_leaf(arrival, first, hosts, packet);
  undelivered_ -= std::uint64_t{arrival.count} * static_cast<unsigned>(std::popcount(hosts));
  Together& group = together_[index(first)];
  if (group.hosts != hosts) {
    part(index(first));
    group.hosts = hosts;
  }
  group.last = std::max(group.last, arrival.last());
}

/// Makes the time of an entry of `together_` the finish time of the ranks on the entry's hosts, and
/// empties the entry. A rank keeps a finish time that is later.
void TrafficRun::part(std::uint32_t first_host) {
  Together& group = together_[first_host];
  for (std::uint64_t rest = group.hosts; rest != 0; rest &= rest - 1) {
    const auto host = first_host + static_cast<std::uint32_t>(std::countr_zero(rest));
    Picoseconds& finish = finish_[rank_of_host_[host]];
    finish = std::max(finish, group.last);
  }
  group.hosts = 0;
}

void TrafficRun::handle(const Event& event) {
  if (detail_of(event) != kLeft) return complete(target_of(event), event.time);
  --ports_[target_of(event)].posted;
  pump(target_of(event), event.time);
}

void TrafficRun::complete(MessageIndex message, Picoseconds now) {
  for (std::uint32_t i = first_dependents_[message]; i < first_dependents_[message + 1]; ++i) {
    if (--missing_needs_[dependents_[i]] == 0) send(dependents_[i], now);
  }
}

Status TrafficRun::run(BackgroundTraffic* background) {
  Event event;
  while (queue_.pop(event)) {
    if (kind_of(event) == EventKind::traffic) {
      handle(event);
    } else if (kind_of(event) != EventKind::background) {
      fabric_->handle(event);
    } else if (background != nullptr) {
      background->handle(event);
    }
    if (undelivered_ == 0 && background != nullptr) background->stop();
  }
  for (std::uint32_t host = 0; host < together_.size(); ++host) part(host);
  if (undelivered_ == 0) return {};
  return failure(Code::internal, "{} packets did not arrive; the fabric dropped {} packets",
                 undelivered_, fabric_->counters().dropped);
}

Picoseconds TrafficRun::finish_time() const {
  return finish_.empty() ? Picoseconds{} : *std::max_element(finish_.begin(), finish_.end());
}

}  // namespace tutti::sim
