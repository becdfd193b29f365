#include "sim/device/endpoint.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "sim/device/connection_set.hpp"
#include "sim/device/software_connections.hpp"
#include "wire/header.hpp"

namespace tutti::device::sim {

SimEndpoint::SimEndpoint(const NicPort& port, PayloadStore& payloads,
                         const EndpointOptions& options, const NicSettings& settings,
                         std::uint32_t communicator, std::shared_ptr<FrameTap> tap)
    : rank_(options.rank),
      size_(options.size),
      communicator_(communicator),
      wire_communicator_(options.communicator),
      port_(port),
      nic_{.settings = settings,
           .peer_timeout = options.peer_timeout,
           .accept_big_endian_atomics = options.accept_big_endian_atomics,
           .payloads = &payloads} {
  using enum Capability;
  for (const Capability one :
       {multicast_ud, reliable_send, write, write_immediate, read, masked_atomics, tag_matching}) {
    capabilities_.bits |= static_cast<std::uint32_t>(one);
  }
  if (settings.big_endian_atomics)
    capabilities_.bits |= static_cast<std::uint32_t>(big_endian_atomics);
  if (settings.lossless) capabilities_.bits |= static_cast<std::uint32_t>(lossless);
  capabilities_.max_chunk_bytes = settings.chunk_bytes;
  capabilities_.immediate_bits = 64;
  capabilities_.receive_window_bytes =
      std::uint64_t{settings.staging_chunks} * settings.chunk_bytes;
  capabilities_.max_send_batch = settings.max_send_batch;
  const std::uint32_t pairs = options.subgroups + (settings.slot_exchange ? 1 : 0);
  for (std::uint32_t s = 0; s < pairs; ++s) {
    groups_.push_back(std::make_unique<SimMulticastQueuePair>(port_, nic_, s));
    port_.add_queue();
  }
  nic_.multicast = groups_.front().get();
  if (settings.slot_exchange) {
    slot_exchange_ = std::make_unique<slots::DatagramSlotExchange>(
        options.rank, options.size, *groups_.back(), settings.chunk_bytes);
  }
  if (settings.connections == ConnectionKind::software) {
    connections_ = std::make_unique<SoftwareConnections>(port_, nic_, options, communicator, pairs,
                                                         std::move(tap));
  } else {
    connections_ =
        std::make_unique<ConnectionSet>(port_, nic_, rank_, communicator, pairs, std::move(tap));
  }
}

SimEndpoint::~SimEndpoint() {
  kill();
  port_.close();
}

std::vector<std::byte> SimEndpoint::address() const {
  const std::uint32_t host = port_.host();
  std::vector<std::byte> bytes(12);
  std::memcpy(bytes.data(), &host, 4);
  std::memcpy(bytes.data() + 4, &capabilities_.max_chunk_bytes, 4);
  std::memcpy(bytes.data() + 8, &nic_.settings.staging_chunks, 4);
  return bytes;
}

Status SimEndpoint::connect(std::span<const std::vector<std::byte>> addresses) {
  if (addresses.size() != size_) {
    return failure(Code::invalid_argument,
                   "{} addresses are given for {} ranks: give one address per rank",
                   addresses.size(), size_);
  }
  const std::vector<std::byte> own = address();
  for (std::size_t r = 0; r < addresses.size(); ++r) {
    const std::vector<std::byte>& other = addresses[r];
    if (other.size() != own.size() || std::memcmp(other.data() + 4, own.data() + 4, 8) != 0) {
      return failure(Code::invalid_argument,
                     "the simulated NICs of rank {} and rank {} differ in chunk_bytes or "
                     "staging_chunks: use the same settings at all ranks",
                     r, index(rank_));
    }
  }
  return {};
}

Status SimEndpoint::post(Instant now, const WorkRequest& request) {
  if (index(request.peer) >= size_ || request.peer == rank_) {
    return failure(Code::invalid_argument,
                   "rank {1} cannot post work for rank {0}: name a different rank, below {2}",
                   index(request.peer), index(rank_), size_);
  }
  return connections_->post(now, request);
}

Instant SimEndpoint::next_chunk() const {
  Instant visible = kNever;
  for (const auto& group : groups_) {
    const bool of_slots = group->subgroup() == subgroup_count();
    const bool wakes = of_slots ? slot_exchange_->waits() : !workers_receive_;
    if (wakes) visible = std::min(visible, group->next_visible());
  }
  return visible;
}

void SimEndpoint::kill() {
  port_.kill();
  connections_->clear();
  for (auto& group : groups_) group->clear();
}

// ---- sending ------------------------------------------------------------------------------------

bool SimEndpoint::sends_from(std::span<const std::byte> memory) const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [&](const auto& group) { return group->sends_from(memory); });
}

bool SimEndpoint::transmit(std::uint32_t queue) {
  if (port_.dead()) return false;
  const auto pairs = static_cast<std::uint32_t>(groups_.size());
  bool more = false;
  if (queue >= pairs) {
    more = connections_->transmit(queue - pairs);
  } else if (groups_[queue]->has_output()) {
    SimMulticastQueuePair& pair = *groups_[queue];
    const MulticastBurst burst = pair.next_burst(nic_.settings.burst_packets);
    const wire::Header header{
        .kind = burst.count == 0 ? wire::PacketKind::probe : wire::PacketKind::chunk,
        .subgroup = static_cast<std::uint8_t>(queue),
        .communicator = wire_communicator_,
        .source = rank_,
        .epoch = burst.epoch,
        .psn = burst.first_psn};
    pair.departs(burst.data.size(), tutti::sim::to_instant(port_.multicast(header, burst)));
    more = pair.has_output();
  }
  if (!more) port_.drained(queue);
  return more;
}

// ---- arrivals -----------------------------------------------------------------------------------

void SimEndpoint::on_chunk(std::uint32_t subgroup, const StagedChunk& chunk) {
  if (port_.dead()) {
    nic_.payloads->release(chunk.payload);
  } else if (groups_[subgroup]->arrive(chunk)) {
    // A chunk of a slot exchange wakes the host only while this rank waits in a slot exchange.
    const bool of_slots = subgroup == subgroup_count();
    if (!of_slots || slot_exchange_->waits()) port_.wake(chunk.visible, true);
  }
}

void SimEndpoint::on_probe(std::uint32_t subgroup, Rank source) {
  if (port_.dead()) return;
  connections_->on_probe(source, subgroup);
}

void SimEndpoint::on_packet(const NicPacket& packet) {
  if (port_.dead()) {
    nic_.payloads->release(packet.payload);
  } else {
    connections_->on_packet(packet);
  }
}

}  // namespace tutti::device::sim
