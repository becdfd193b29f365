#include "sim/device/software_connections.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/random.hpp"
#include "sim/device/multicast_queue.hpp"

namespace tutti::device::sim {

namespace {

/// The incarnation of an endpoint. In a real endpoint the incarnation is random. Here it is
/// computed from communicator and rank, because equal runs must send equal bytes.
std::uint32_t incarnation_of(std::uint32_t communicator, Rank rank) {
  return static_cast<std::uint32_t>(draw(communicator, index(rank)));
}

}  // namespace

rc::RcConfig channel_config(const NicSettings& settings, const EndpointOptions& options) {
  rc::RcConfig config;
  config.max_frame_bytes = std::max(settings.chunk_bytes, rc::kMinFrameBytes);
  config.overhead_bytes = settings.datagram_header_bytes + std::uint32_t{wire::kHeaderBytes};
  config.peer_timeout = options.peer_timeout;
  return config;
}

SoftwareConnections::SoftwareConnections(NicPort& port, NicShared& nic,
                                         const EndpointOptions& options, std::uint32_t communicator,
                                         std::uint32_t queue, std::shared_ptr<FrameTap> tap)
    : port_(&port),
      nic_(&nic),
      tap_(std::move(tap)),
      rank_(options.rank),
      communicator_(static_cast<std::uint16_t>(communicator)),
      queue_(queue),
      channels_(options.rank, options.size),
      datagrams_(options.rank, options.size, options.communicator) {
  rc::RcConfig config = channel_config(nic.settings, options);
  config.own_incarnation = incarnation_of(communicator, rank_);
  (void)channels_.configure(config);
  channels_.limit_connections({.most = options.max_connections});
  for (std::uint32_t r = 0; r < options.size; ++r) {
    channels_.set_incarnation(rank_of(r), incarnation_of(communicator, rank_of(r)));
  }
  port_->add_queue();
}

Status SoftwareConnections::use_secret(std::span<const std::byte> secret) {
  const auto keys = wire::TagKeys::keyed(secret, communicator_);
  if (!keys) return keys.status();
  datagrams_.set_tag_keys(*keys);
  return {};
}

Status SoftwareConnections::post(Instant now, const WorkRequest& request) {
  now_ = now;
  return channels_.post(now, request);
}

std::size_t SoftwareConnections::poll(Instant now, std::span<Completion> completions) {
  now_ = now;
  channels_.poll(now, *this, completions_);
  return take(now, completions);
}

std::size_t SoftwareConnections::poll_posted(Instant now, std::span<Completion> completions) {
  now_ = now;
  channels_.poll_posted(now, *this, completions_);
  return take(now, completions);
}

std::size_t SoftwareConnections::take(Instant now, std::span<Completion> completions) {
  for (; !probes_.empty() && probes_.front().visible <= now; probes_.pop_front()) {
    channels_.on_probe(now,
                       {.opcode = Opcode::probe,
                        .peer = probes_.front().source,
                        .immediate = probes_.front().subgroup},
                       completions_);
  }
  return completions_.take(completions);
}

Instant SoftwareConnections::next_visible() const {
  Instant visible = completions_.empty() ? kNever : now_;
  if (!arrived_.empty()) visible = std::min(visible, arrived_[0].visible);
  return probes_.empty() ? visible : std::min(visible, probes_[0].visible);
}

void SoftwareConnections::add_to(EndpointCounters& counters) const { channels_.add_to(counters); }

void SoftwareConnections::clear() {
  for (; !unsent_.empty(); unsent_.pop_front()) nic_->payloads->release(unsent_.front().payload);
  for (; !arrived_.empty(); arrived_.pop_front()) {
    nic_->payloads->release(arrived_.front().payload);
  }
}

// ---- sending ------------------------------------------------------------------------------------

bool SoftwareConnections::send(Instant now, Rank peer, rc::RcChannel& channel) {
  rc::OutgoingFrame frame;
  bool room = true;
  while (room && channel.next_frame(now, frame)) {
    const unsigned copies = tap_ ? tap_->copies(rank_, peer, frame.size()) : 1;
    room = unsent_.size() + copies <= nic_->settings.send_queue_frames;
    if (!room) {
      channel.take_back(frame);
      ++nic_->counters.send_queue_full;
    }
    for (unsigned copy = 0; room && copy < copies; ++copy) enqueue(peer, frame);
  }
  if (!unsent_.empty()) port_->ready(queue_);
  return room;
}

void SoftwareConnections::enqueue(Rank peer, const rc::OutgoingFrame& frame) {
  std::byte head[rc::FrameDatagrams::kMaxHeadBytes];
  const auto datagram = datagrams_.encode(peer, frame, head);
  Payload* payload = nic_->payloads->allocate(datagram.head_bytes + datagram.rest.size(), 1);
  std::memcpy(payload->data(), head, datagram.head_bytes);
  if (!datagram.rest.empty()) {
    std::memcpy(payload->data() + datagram.head_bytes, datagram.rest.data(), datagram.rest.size());
  }
  const bool message = frame.header[0] == static_cast<std::byte>(rc::RcKind::send);
  unsent_.push_back({.kind = NicPacketKind::datagram,
                     .communicator = communicator_,
                     .source = rank_,
                     .destination = peer,
                     .length = message ? 0 : static_cast<std::uint32_t>(frame.payload.size()),
                     .payload = payload});
  ++nic_->counters.send_calls;
}

bool SoftwareConnections::transmit(std::uint32_t) {
  for (std::uint32_t i = 0; i < nic_->settings.burst_packets && !unsent_.empty(); ++i) {
    port_->unicast(unsent_.front());
    unsent_.pop_front();
  }
  return !unsent_.empty();
}

void SoftwareConnections::send_sign_of_life() { (void)nic_->multicast->post_probe(0, 0); }

void SoftwareConnections::probe_path(Rank peer, std::uint32_t) {
  // A probe for which the send queue has no room counts as lost.
  if (unsent_.size() >= nic_->settings.send_queue_frames) return;
  Payload* payload = nic_->payloads->allocate(wire::kHeaderBytes, 1);
  datagrams_.encode_probe(peer, {}, payload->data());
  unsent_.push_back({.kind = NicPacketKind::datagram,
                     .communicator = communicator_,
                     .source = rank_,
                     .destination = peer,
                     .payload = payload});
  ++nic_->counters.send_calls;
  port_->ready(queue_);
}

// ---- arrivals -----------------------------------------------------------------------------------

void SoftwareConnections::on_packet(const NicPacket& packet) {
  if (arrived_.size() >= nic_->settings.receive_queue_frames) {
    ++nic_->counters.kernel_drops;
    nic_->payloads->release(packet.payload);
    return;
  }
  const Instant visible = port_->now() + nic_->settings.receive_latency;
  arrived_.push_back({packet.payload, visible, packet.sender_host, packet.stranger});
  port_->wake(visible, false);
}

void SoftwareConnections::on_probe(Rank source, std::uint32_t subgroup) {
  const Instant visible = port_->now() + nic_->settings.receive_latency;
  probes_.push_back({source, subgroup, visible});
  port_->wake(visible, false);
}

bool SoftwareConnections::receive(Instant now) {
  ++nic_->counters.receive_calls;
  const auto readable = [&] { return !arrived_.empty() && arrived_.front().visible <= now; };
  for (std::uint32_t i = 0; i < nic_->settings.receive_batch_frames && readable(); ++i) {
    const Datagram one = arrived_.front();
    arrived_.pop_front();
    const auto received = datagrams_.decode(
        one.payload->bytes(),
        [&](Rank source) { return port_->host_of(source) == one.sender_host; }, nic_->counters);
    if (one.stranger) ++(received ? nic_->strangers_accepted : nic_->strangers_refused);
    if (received && received->probe) {
      channels_.on_probe(now,
                         {.opcode = Opcode::probe, .peer = received->source, .immediate = kUnicast},
                         completions_);
    } else if (received) {
      channels_.on_frame(now, received->source, received->frame, completions_);
    }
    nic_->payloads->release(one.payload);
  }
  return readable();
}

}  // namespace tutti::device::sim
