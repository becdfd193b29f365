#include "sim/device/endpoint.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "sim/device/network.hpp"

namespace tutti::device::sim {

SimEndpoint::SimEndpoint(SimNetwork& network, const EndpointOptions& options,
                         const NicSettings& settings, std::uint32_t number,
                         std::uint32_t communicator, std::uint32_t host,
                         std::shared_ptr<FrameTap> tap)
    : network_(&network),
      tap_(std::move(tap)),
      rank_(options.rank),
      size_(options.size),
      number_(number),
      communicator_(communicator),
      host_(host),
      wire_communicator_(options.communicator) {
  using enum Capability;
  for (const Capability one : {multicast_ud, reliable_send, write, write_immediate, read}) {
    capabilities_.bits |= static_cast<std::uint32_t>(one);
  }
  if (settings.lossless) capabilities_.bits |= static_cast<std::uint32_t>(lossless);
  capabilities_.max_chunk_bytes = settings.chunk_bytes;
  capabilities_.immediate_bits = 64;
  capabilities_.receive_window_bytes =
      std::uint64_t{settings.staging_chunks} * settings.chunk_bytes;
  capabilities_.max_send_batch = settings.max_send_batch;
  nic_.settings = settings;
  nic_.peer_timeout = options.peer_timeout;
  nic_.payloads = &network.payloads();
  for (std::uint32_t s = 0; s < options.subgroups; ++s) {
    groups_.push_back(std::make_unique<SimMulticastQueuePair>(*this, s));
  }
  queued_.resize(options.subgroups);
}

SimEndpoint::~SimEndpoint() {
  kill();
  network_->closed(*this);
}

Instant SimEndpoint::now() const { return tutti::sim::to_instant(network_->now()); }

std::vector<std::byte> SimEndpoint::address() const {
  std::vector<std::byte> bytes(12);
  std::memcpy(bytes.data(), &host_, 4);
  std::memcpy(bytes.data() + 4, &capabilities_.max_chunk_bytes, 4);
  std::memcpy(bytes.data() + 8, &nic_.settings.staging_chunks, 4);
  return bytes;
}

Status SimEndpoint::connect(std::span<const std::vector<std::byte>> addresses) {
  if (addresses.size() != size_) {
    return failure(Code::invalid_argument, "{} addresses are given for {} ranks: give one a rank",
                   addresses.size(), size_);
  }
  const std::vector<std::byte> own = address();
  for (std::size_t r = 0; r < addresses.size(); ++r) {
    const std::vector<std::byte>& other = addresses[r];
    if (other.size() != own.size() || std::memcmp(other.data() + 4, own.data() + 4, 8) != 0) {
      return failure(Code::invalid_argument,
                     "rank {}'s simulated NIC differs from rank {}'s: use equal settings", r,
                     index(rank_));
    }
  }
  return {};
}

// ---- the connections ----------------------------------------------------------------------------

std::uint32_t SimEndpoint::connection(Rank peer) {
  const auto at = std::lower_bound(peers_.begin(), peers_.end(), peer,
                                   [](const Peer& one, Rank rank) { return one.rank < rank; });
  if (at != peers_.end() && at->rank == peer) return at->connection;
  const auto number = static_cast<std::uint32_t>(connections_.size());
  connections_.emplace_back(peer);
  queued_.push_back(false);
  peers_.insert(at, {peer, number});
  return number;
}

Status SimEndpoint::post(Instant now, const WorkRequest& request) {
  if (index(request.peer) >= size_ || request.peer == rank_) {
    return failure(Code::invalid_argument, "rank {} is not a peer of rank {} (of {})",
                   index(request.peer), index(rank_), size_);
  }
  const std::uint32_t at = connection(request.peer);
  const Status status = connections_[at].post(nic_, now, request);
  if (status.ok()) connection_ready(at);
  return status;
}

void SimEndpoint::watch(Rank peer, bool on) {
  const std::uint32_t at = connection(peer);
  connections_[at].watch(nic_, now(), on);
  if (on) arm_timer(connections_[at].next_deadline(nic_));
}

std::size_t SimEndpoint::poll(Instant now, std::span<Completion> completions) {
  if (nic_.settings.host_serviced) {
    while (!inbox_.empty()) {
      const NicPacket packet = inbox_.front();
      inbox_.pop_front();
      serve(packet);
    }
    run_timers(now);
  }
  return nic_.completions.take(now, completions, *nic_.payloads);
}

bool SimEndpoint::quiet() const {
  return inbox_.empty() && std::all_of(connections_.begin(), connections_.end(),
                                       [](const NicConnection& one) { return one.quiet(); });
}

Instant SimEndpoint::next_deadline() const {
  if (!nic_.settings.host_serviced) return kNever;
  Instant deadline = kNever;
  for (const NicConnection& one : connections_) {
    deadline = std::min(deadline, one.next_deadline(nic_));
  }
  return deadline;
}

Instant SimEndpoint::next_completion() const {
  const Instant visible = nic_.completions.next_visible();
  return inbox_.empty() ? visible : std::min(visible, now() + nic_.settings.receive_latency);
}

Instant SimEndpoint::next_chunk() const {
  Instant visible = kNever;
  for (const auto& group : groups_) visible = std::min(visible, group->next_visible());
  return visible;
}

// ---- sending ------------------------------------------------------------------------------------

bool SimEndpoint::sends_from(std::span<const std::byte> memory) const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [&](const auto& group) { return group->sends_from(memory); });
}

void SimEndpoint::make_ready(std::uint32_t queue) {
  if (queued_[queue] || dead_) return;
  queued_[queue] = true;
  network_->ready(*this, queue);
}

void SimEndpoint::multicast_ready(std::uint32_t subgroup) { make_ready(subgroup); }

void SimEndpoint::connection_ready(std::uint32_t at) {
  if (connections_[at].has_output(nic_)) make_ready(subgroup_count() + at);
}

bool SimEndpoint::transmit(std::uint32_t queue) {
  if (dead_) return false;
  const bool more = queue < subgroup_count() ? transmit_multicast(queue)
                                             : transmit_reliable(queue - subgroup_count());
  if (!more) queued_[queue] = false;
  return more;
}

bool SimEndpoint::transmit_multicast(std::uint32_t subgroup) {
  SimMulticastQueuePair& pair = *groups_[subgroup];
  if (!pair.has_output()) return false;
  const MulticastBurst burst = pair.next_burst(nic_.settings.burst_packets);
  const wire::Header header{
      .kind = burst.count == 0 ? wire::PacketKind::probe : wire::PacketKind::chunk,
      .subgroup = static_cast<std::uint8_t>(subgroup),
      .communicator = wire_communicator_,
      .source = rank_,
      .epoch = burst.epoch,
      .psn = burst.first_psn};
  pair.departs(burst.data.size(),
               tutti::sim::to_instant(network_->multicast(*this, header, burst)));
  return pair.has_output();
}

bool SimEndpoint::transmit_reliable(std::uint32_t at) {
  const Instant now = this->now();
  for (std::uint32_t i = 0; i < nic_.settings.burst_packets; ++i) {
    NicPacket packet;
    if (!connections_[at].next_packet(nic_, now, packet)) break;
    inject_reliable(packet);
  }
  arm_timer(connections_[at].next_deadline(nic_));
  return connections_[at].has_output(nic_);
}

void SimEndpoint::inject_reliable(NicPacket& packet) {
  packet.source = rank_;
  packet.communicator = static_cast<std::uint16_t>(communicator_);
  const unsigned copies = tap_ ? tap_->copies(rank_, packet.destination, packet.length) : 1;
  // The fabric may lose a copy and release its bytes before the next copy is sent.
  if (packet.payload != nullptr && copies > 1) packet.payload->references += copies - 1;
  if (copies == 0) nic_.payloads->release(packet.payload);
  for (unsigned copy = 0; copy < copies; ++copy) network_->unicast(*this, packet);
}

// ---- arrivals -----------------------------------------------------------------------------------

void SimEndpoint::network_wake(Instant visible, bool chunk) {
  network_->wake(*this, visible, chunk);
}

void SimEndpoint::on_chunk(std::uint32_t subgroup, const StagedChunk& chunk) {
  if (dead_) {
    nic_.payloads->release(chunk.payload);
  } else if (groups_[subgroup]->arrive(chunk)) {
    network_wake(chunk.visible, true);
  }
}

void SimEndpoint::on_probe(std::uint32_t subgroup, Rank source) {
  if (dead_) return;
  const Instant visible = now() + nic_.settings.receive_latency;
  nic_.completions.push({.opcode = Opcode::probe, .peer = source, .immediate = subgroup}, visible);
  network_wake(visible, false);
}

void SimEndpoint::on_packet(const NicPacket& packet) {
  if (dead_) {
    nic_.payloads->release(packet.payload);
  } else if (nic_.settings.host_serviced) {
    inbox_.push_back(packet);
    network_wake(now() + nic_.settings.receive_latency, false);
  } else {
    serve(packet);
    if (!nic_.completions.empty()) wake_for_completion();
  }
}

void SimEndpoint::serve(const NicPacket& packet) {
  const std::uint32_t at = connection(packet.source);
  connections_[at].on_packet(nic_, now(), packet);
  connection_ready(at);
}

// ---- time ---------------------------------------------------------------------------------------

void SimEndpoint::arm_timer(Instant deadline) {
  deadline = std::max(deadline, now());
  if (nic_.settings.host_serviced || dead_ || deadline >= timer_at_) return;
  timer_at_ = deadline;
  network_->schedule_timer(*this, deadline);
}

void SimEndpoint::on_timer() {
  const Instant now = this->now();
  if (now != timer_at_ || dead_) return;
  timer_at_ = kNever;
  run_timers(now);
  Instant deadline = kNever;
  for (const NicConnection& one : connections_) {
    deadline = std::min(deadline, one.next_deadline(nic_));
  }
  arm_timer(deadline);
  if (!nic_.completions.empty()) wake_for_completion();
}

void SimEndpoint::run_timers(Instant now) {
  for (std::uint32_t at = 0; at < connections_.size(); ++at) {
    if (connections_[at].next_deadline(nic_) > now) continue;
    connections_[at].on_timer(nic_, now);
    connection_ready(at);
  }
}

void SimEndpoint::kill() {
  dead_ = true;
  for (NicConnection& one : connections_) one.clear(nic_);
  for (auto& group : groups_) group->clear();
  while (!inbox_.empty()) {
    nic_.payloads->release(inbox_.front().payload);
    inbox_.pop_front();
  }
}

}  // namespace tutti::device::sim
