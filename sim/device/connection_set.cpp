#include "sim/device/connection_set.hpp"

#include <algorithm>
#include <utility>

namespace tutti::device::sim {

ConnectionSet::ConnectionSet(NicPort& port, NicShared& nic, Rank rank, std::uint32_t communicator,
                             std::uint32_t first_queue, std::shared_ptr<FrameTap> tap)
    : port_(&port),
      nic_(&nic),
      tap_(std::move(tap)),
      rank_(rank),
      communicator_(static_cast<std::uint16_t>(communicator)),
      first_queue_(first_queue) {}

std::uint32_t ConnectionSet::connection(Rank peer) {
  const auto at = std::lower_bound(peers_.begin(), peers_.end(), peer,
                                   [](const Peer& one, Rank rank) { return one.rank < rank; });
  if (at != peers_.end() && at->rank == peer) return at->connection;
  const auto number = static_cast<std::uint32_t>(connections_.size());
  connections_.emplace_back(peer);
  port_->add_queue();
  peers_.insert(at, {peer, number});
  EndpointCounters& counters = nic_->counters;
  counters.connections_made = counters.connections_open = counters.connections_high_water =
      connections_.size();
  return number;
}

void ConnectionSet::ready(std::uint32_t at) {
  if (connections_[at].has_output(*nic_)) port_->ready(first_queue_ + at);
}

Status ConnectionSet::post(Instant now, const WorkRequest& request) {
  const std::uint32_t at = connection(request.peer);
  const Status status = connections_[at].post(*nic_, now, request);
  if (status.ok()) ready(at);
  return status;
}

void ConnectionSet::watch(Rank peer, bool on) {
  const std::uint32_t at = connection(peer);
  connections_[at].watch(*nic_, port_->now(), on);
  if (on) arm_timer(connections_[at].next_deadline(*nic_));
}

void ConnectionSet::abandon() {
  for (NicConnection& one : connections_) one.abandon();
}

bool ConnectionSet::quiet() const {
  return inbox_.empty() && std::all_of(connections_.begin(), connections_.end(),
                                       [](const NicConnection& one) { return one.quiet(); });
}

std::size_t ConnectionSet::poll(Instant now, std::span<Completion> completions) {
  if (nic_->settings.host_serviced) serve(now);
  return nic_->completions.take(now, completions, *nic_->payloads);
}

Instant ConnectionSet::next_visible() const {
  const Instant visible = nic_->completions.next_visible();
  if (inbox_.empty()) return visible;
  return std::min(visible, port_->now() + nic_->settings.receive_latency);
}

Instant ConnectionSet::next_deadline() const {
  return nic_->settings.host_serviced ? next_timer() : kNever;
}

Instant ConnectionSet::next_timer() const {
  Instant deadline = kNever;
  for (const NicConnection& one : connections_) {
    deadline = std::min(deadline, one.next_deadline(*nic_));
  }
  return deadline;
}

// ---- sending ------------------------------------------------------------------------------------

bool ConnectionSet::transmit(std::uint32_t at) {
  const Instant now = port_->now();
  for (std::uint32_t i = 0; i < nic_->settings.burst_packets; ++i) {
    NicPacket packet;
    if (!connections_[at].next_packet(*nic_, now, packet)) break;
    inject(packet);
  }
  arm_timer(connections_[at].next_deadline(*nic_));
  return connections_[at].has_output(*nic_);
}

void ConnectionSet::inject(NicPacket& packet) {
  packet.source = rank_;
  packet.communicator = communicator_;
  const unsigned copies = tap_ ? tap_->copies(rank_, packet.destination, packet.length) : 1;
  // Takes the references to the payload for all copies before the first copy is sent, because the
  // fabric releases the reference of a lost copy at once.
  if (packet.payload != nullptr && copies > 1) packet.payload->references += copies - 1;
  if (copies == 0) nic_->payloads->release(packet.payload);
  for (unsigned copy = 0; copy < copies; ++copy) port_->unicast(packet);
}

// ---- arrivals -----------------------------------------------------------------------------------

void ConnectionSet::on_packet(const NicPacket& packet) {
  if (nic_->settings.host_serviced) {
    inbox_.push_back(packet);
    port_->wake(port_->now() + nic_->settings.receive_latency, false);
  } else {
    process(packet);
    wake_for_completion();
    // A real host that waits for a counter polls the memory of the counter. The simulated host does
    // not poll; the NIC wakes it when an atomic may have changed a counter.
    if (packet.kind == NicPacketKind::atomic_request)
      port_->wake(port_->now() + nic_->settings.receive_latency, false);
  }
}

void ConnectionSet::on_probe(Rank source, std::uint32_t subgroup) {
  const Instant visible = port_->now() + nic_->settings.receive_latency;
  nic_->completions.push({.opcode = Opcode::probe, .peer = source, .immediate = subgroup}, visible);
  port_->wake(visible, false);
}

void ConnectionSet::serve(Instant now) {
  while (!inbox_.empty()) {
    const NicPacket packet = inbox_.front();
    inbox_.pop_front();
    process(packet);
  }
  run_timers(now);
}

void ConnectionSet::process(const NicPacket& packet) {
  const std::uint32_t at = connection(packet.source);
  connections_[at].on_packet(*nic_, port_->now(), packet);
  ready(at);
}

void ConnectionSet::wake_for_completion() {
  if (!nic_->completions.empty()) port_->wake(nic_->completions.next_visible(), false);
}

// ---- time ---------------------------------------------------------------------------------------

void ConnectionSet::arm_timer(Instant deadline) {
  deadline = std::max(deadline, port_->now());
  if (nic_->settings.host_serviced || port_->dead() || deadline >= timer_at_) return;
  timer_at_ = deadline;
  port_->set_timer(deadline);
}

void ConnectionSet::on_timer() {
  const Instant now = port_->now();
  if (now != timer_at_ || port_->dead()) return;
  timer_at_ = kNever;
  run_timers(now);
  arm_timer(next_timer());
  wake_for_completion();
}

void ConnectionSet::run_timers(Instant now) {
  for (std::uint32_t at = 0; at < connections_.size(); ++at) {
    if (connections_[at].next_deadline(*nic_) > now) continue;
    connections_[at].on_timer(*nic_, now);
    ready(at);
  }
}

void ConnectionSet::clear() {
  for (NicConnection& one : connections_) one.clear(*nic_);
  while (!inbox_.empty()) {
    nic_->payloads->release(inbox_.front().payload);
    inbox_.pop_front();
  }
}

}  // namespace tutti::device::sim
