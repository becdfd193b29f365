#include "sim/traffic_run.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace tutti::sim {
namespace {

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

Status TrafficRun::begin(Fabric& fabric, Picoseconds start, TreeChoice tree) {
  if (hosts_.size() != plan_.ranks()) {
    return failure(Code::invalid_argument, "{} hosts are given for a plan of {} ranks",
                   hosts_.size(), plan_.ranks());
  }
  for (MessageIndex m = 0; m < plan_.messages().size(); ++m) {
    for (const MessageIndex need : plan_.needs(m)) {
      if (plan_.messages()[need].to == kAllRanks ||
          plan_.messages()[need].to != plan_.messages()[m].from) {
        return failure(Code::invalid_argument,
                       "message {} needs message {}, which is not for its sender alone", m, need);
      }
    }
  }
  fabric_ = &fabric;
  finish_.assign(plan_.ranks(), Picoseconds{});
  rank_of_host_.assign(fabric.topology().hosts(), 0);
  for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank) {
    if (index(hosts_[rank]) >= fabric.topology().hosts()) {
      return failure(Code::invalid_argument, "rank {} is on host {}, of {} hosts", rank,
                     index(hosts_[rank]), fabric.topology().hosts());
    }
    rank_of_host_[index(hosts_[rank])] = rank;
  }
  bool multicast = false;
  for (const Message& message : plan_.messages()) {
    const std::uint32_t packets = packets_of(message.bytes, settings_.mtu_bytes);
    const bool to_all = message.to == kAllRanks;
    missing_packets_.push_back(packets);
    undelivered_ += std::uint64_t{packets} * (to_all ? plan_.ranks() - 1 : 1);
    multicast = multicast || to_all;
  }
  if (multicast) {
    auto group = fabric.create_group(hosts_, tree);
    if (!group) return group.status();
    group_ = *group;
  }
  for (MessageIndex m = 0; m < plan_.messages().size(); ++m) {
    if (missing_needs_[m] == 0) send(m, start);
  }
  return {};
}

void TrafficRun::send(MessageIndex at, Picoseconds now) {
  const Message& message = plan_.messages()[at];
  const bool to_all = message.to == kAllRanks;
  const std::uint32_t header =
      to_all ? settings_.multicast_header_bytes : settings_.unicast_header_bytes;
  const HostId from = hosts_[message.from];
  Packet packet =
      to_all ? Packet::to_group(group_, 0, 0) : Packet::to_host(hosts_[message.to], 0, 0);
  packet.cookie = at;
  packet.flow = at;
  for (std::uint64_t left = message.bytes;;) {
    const auto payload =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(left, settings_.mtu_bytes));
    packet.payload_bytes = payload;
    packet.wire_bytes = payload + header;
    packet.count = 1;
    if (settings_.trains && payload == settings_.mtu_bytes) {
      packet.count =
          static_cast<std::uint16_t>(std::min<std::uint64_t>(left / settings_.mtu_bytes, 0x7fff));
    }
    fabric_->inject(now, from, packet);
    left -= std::uint64_t{payload} * packet.count;
    if (left == 0) break;
  }
}

void TrafficRun::arrived(const Arrival& arrival, HostId at, const Packet& packet) {
  undelivered_ -= arrival.count;
  const std::uint32_t rank = rank_of_host_[index(at)];
  finish_[rank] = std::max(finish_[rank], arrival.last());
  if (packet.multicast) return;
  const auto message = static_cast<MessageIndex>(packet.cookie);
  if ((missing_packets_[message] -= arrival.count) != 0) return;
  const Picoseconds ready = arrival.last() + settings_.message_overhead;
  if (ready == queue_.now()) return complete(message, ready);
  queue_.push({ready, event_key(EventKind::traffic, message), 0});
}

void TrafficRun::handle(const Event& event) { complete(target_of(event), event.time); }

void TrafficRun::complete(MessageIndex message, Picoseconds now) {
  for (std::uint32_t i = first_dependents_[message]; i < first_dependents_[message + 1]; ++i) {
    if (--missing_needs_[dependents_[i]] == 0) send(dependents_[i], now);
  }
}

Status TrafficRun::run() {
  Event event;
  while (queue_.pop(event)) {
    if (kind_of(event) == EventKind::traffic) {
      handle(event);
    } else {
      fabric_->handle(event);
    }
  }
  if (undelivered_ == 0) return {};
  return failure(Code::internal, "{} packets did not arrive, {} were dropped by the fabric",
                 undelivered_, fabric_->counters().dropped);
}

Picoseconds TrafficRun::finish_time() const {
  return finish_.empty() ? Picoseconds{} : *std::max_element(finish_.begin(), finish_.end());
}

}  // namespace tutti::sim
