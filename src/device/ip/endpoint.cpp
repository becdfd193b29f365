#include "device/ip/endpoint.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "crypto/secret.hpp"
#include "device/ip/address_record.hpp"
#include "device/ip/chunk_shape.hpp"
#include "device/ip/link_address.hpp"
#include "device/ip/multicast/group.hpp"
#include "wire/uc_fragment.hpp"

namespace tutti::device::ip {

namespace {

// Share of the receive buffer that is left for payload if the kernel does not merge datagrams,
// measured with 1000-byte datagrams. The rest is kernel overhead.
constexpr double kPayloadShare = 0.4;

// One doorbell posts at most this many bytes of UC messages, because the sender must poll for
// arrivals between two doorbells.
constexpr std::uint32_t kMessageBatchBytes = 256 * 1024;

/// Size of the longest SEND: 64 KiB of data and the header of the engine. A longer message takes
/// one more round trip, because the receiver READs it.
constexpr std::uint32_t kLongestSendBytes = 64 * 1024 + 64;

SocketAddress group_of(std::uint32_t subgroup, const EndpointOptions& options, const IpOptions& ip,
                       const Interface& interface) {
  return group_address(options.group_seed, subgroup, ip.family, interface.index, ip.multicast_hops);
}

QueuePairs queue_pairs(const std::vector<std::unique_ptr<IpMulticastQueuePair>>& groups,
                       const std::unique_ptr<IpMulticastQueuePair>& slots) {
  QueuePairs pairs{slots.get()};
  for (const auto& group : groups) pairs.push_back(group.get());
  return pairs;
}

// While more bytes than this wait in the kernel for a link address, further frames are sent by
// multicast and not by unicast, so that they do not fill the send buffer.
constexpr std::uint64_t kMostHeldBytes = 32 * 1024;

bool is_uc(const IpOptions& options) { return options.multicast == Multicast::uc; }

/// The window of one reliable connection: how many of its bytes may be unacknowledged. The window
/// must cover the data that a congested link queues in both directions. Beyond that minimum, the
/// windows of all peers together should fit into half of the socket's receive buffer.
std::uint32_t reliable_window_bytes(std::uint64_t receive_buffer_bytes, std::uint32_t ranks) {
  constexpr std::uint64_t kMinBytes = 256 * 1024;
  constexpr std::uint64_t kMaxBytes = 512 * 1024;
  return static_cast<std::uint32_t>(
      std::clamp(receive_buffer_bytes / 2 / std::max(ranks, 1u), kMinBytes, kMaxBytes));
}

/// Opens the socket of the reliable connections, binds it to a free port of the interface, and
/// stores the port in `interface.address`.
Result<Descriptor> open_unicast(const IpOptions& ip, Interface& interface, ConnectionGate& gate) {
  auto socket = open_udp(ip.family);
  if (!socket) return socket.status();
  if (Status status = gate.open(socket->get(), ip.family, ip.traffic); !status) return status;
  (void)set_option(socket->get(), SOL_SOCKET, SO_SNDBUF, 1 << 20, "SO_SNDBUF");
  enable_receive_offload(socket->get());
  if (::bind(socket->get(), interface.address.get(), interface.address.length()) != 0)
    return system_failure(errno, "binding to {}", interface.address.to_string());
  socklen_t length = interface.address.length();
  if (::getsockname(socket->get(), interface.address.get(), &length) != 0)
    return system_failure(errno, "reading the port of the unicast socket");
  return std::move(*socket);
}

/// Replaces the scope ids in the peers' addresses by the scope id of this rank's interface, because
/// a scope id is valid on one host only.
void take_scope_of(const SocketAddress& interface, std::vector<SocketAddress>& peers) {
  for (SocketAddress& peer : peers) {
    reinterpret_cast<sockaddr_in6*>(peer.get())->sin6_scope_id =
        reinterpret_cast<const sockaddr_in6*>(interface.get())->sin6_scope_id;
  }
}

/// Gives the queue pair of the slot exchange the addresses of all ranks. A rank with slot port 0
/// receives entries by multicast only.
void introduce(const std::shared_ptr<const std::vector<SocketAddress>>& members,
               std::span<const std::uint16_t> slot_ports, IpMulticastQueuePair& slots) {
  slots.set_members(members);
  for (std::uint32_t r = 0; r < slot_ports.size(); ++r) {
    if (slot_ports[r] == 0) continue;
    SocketAddress unicast = (*members)[r];
    unicast.set_port(slot_ports[r]);
    slots.set_unicast_address(rank_of(r), unicast);
  }
}

/// Opens the queue pair of the slot exchange on a port of its own, so that entries stay queued
/// until this rank collects them. The result is null if the communicator has no slot exchange.
Result<std::unique_ptr<IpMulticastQueuePair>> open_slot_pair(const GroupSettings& settings,
                                                             const SocketAddress& group,
                                                             std::uint32_t subgroup,
                                                             const Interface& interface) {
  // A communicator has a slot exchange only if it has at most this many ranks. The limit bounds the
  // entries that a rank receives in one exchange, up to one from every other rank.
  constexpr std::uint32_t kMaxRanks = 16;
  if (settings.size < 2 || settings.size > kMaxRanks || subgroup == wire::kMaxSubgroups)
    return std::unique_ptr<IpMulticastQueuePair>();
  GroupSettings of_slots = settings;
  of_slots.multicast = Multicast::ud;
  of_slots.slots = true;
  return IpMulticastQueuePair::open(of_slots, interface, group, subgroup);
}

}  // namespace

Result<std::unique_ptr<Endpoint>> IpEndpoint::open(const IpOptions& ip,
                                                   const EndpointOptions& options) {
  if (options.subgroups == 0 || options.subgroups > wire::kMaxSubgroups) {
    return failure(Code::invalid_argument, "the number of subgroups is {}: use 1 to {}",
                   options.subgroups, wire::kMaxSubgroups);
  }
  auto interface = choose_interface(ip.interface, ip.local_only, ip.family);
  if (!interface) return interface.status();
  std::uint32_t incarnation = 0;
  if (Status status = crypto::fill_random(std::as_writable_bytes(std::span(&incarnation, 1)));
      !status) {
    return status;
  }
  auto probe = open_udp(ip.family);
  if (!probe) return probe.status();
  std::unique_ptr<IpEndpoint> endpoint(
      new IpEndpoint(ip, options, *interface, incarnation, probe_send_offload(probe->get())));
  if (Status status = endpoint->open_sockets(); !status) return status;
  return std::unique_ptr<Endpoint>(std::move(endpoint));
}

IpEndpoint::IpEndpoint(const IpOptions& ip, const EndpointOptions& options,
                       const Interface& interface, std::uint32_t incarnation, bool offload)
    : ip_(ip),
      options_(options),
      interface_(interface),
      incarnation_(incarnation),
      peers_(options.size),
      channels_(options.rank, options.size),
      datagrams_(options.rank, options.size, options.communicator),
      sender_(offload),
      gate_(EgressPriority::of(interface_.index)),
      unicast_doubt_(options.size) {
  using enum Capability;
  for (const Capability one : {multicast_ud, multicast_uc, reliable_send, write, write_immediate,
                               read, masked_atomics, dynamic_connections, tag_matching}) {
    capabilities_.bits |= static_cast<std::uint32_t>(one);
  }
  capabilities_.immediate_bits = 64;
  channels_.use_gate(gate_);
  channels_.limit_connections({.most = options.max_connections});
  // `in_batch_` lists the frames in `sender_`. With reserved memory its `push_back` cannot fail, so
  // the list is always complete.
  in_batch_.reserve(DatagramSender::kMaxBatch);
  const ChunkShape shape = chunk_shape(ip_, interface_.mtu_bytes);
  datagram_payload_ = shape.datagram_bytes;
  capabilities_.max_chunk_bytes = shape.chunk_bytes;
}

Status IpEndpoint::open_sockets() {
  epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return system_failure(errno, "creating an epoll descriptor");
  auto unicast = open_unicast(ip_, interface_, gate_);
  if (!unicast) return unicast.status();
  unicast_ = std::move(*unicast);
  unicast_buffer_bytes_ = enlarge_receive_buffer(unicast_.get(), 8 << 20);
  epoll_event event{.events = EPOLLIN, .data = {}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, unicast_.get(), &event) != 0)
    return system_failure(errno, "watching the unicast socket");
  const auto subgroups = static_cast<int>(options_.subgroups);
  const GroupSettings settings{.rank = options_.rank,
                               .size = options_.size,
                               .communicator = options_.communicator,
                               .multicast = ip_.multicast,
                               .hops = ip_.multicast_hops,
                               .traffic = ip_.traffic,
                               .shared_host = options_.local_ranks.size() > 1,
                               .send_buffer_bytes = ip_.send_buffer_bytes / subgroups,
                               .receive_buffer_bytes = ip_.receive_buffer_bytes,
                               .egress = EgressPriority::of(interface_.index)};
  std::uint64_t smallest = UINT64_MAX;
  for (std::uint32_t s = 0; s < options_.subgroups; ++s) {
    const SocketAddress group = group_of(s, options_, ip_, interface_);
    auto pair = IpMulticastQueuePair::open(settings, interface_, group, s);
    if (!pair) return pair.status();
    smallest = std::min(smallest, (*pair)->receive_buffer_bytes());
    groups_.push_back(std::move(*pair));
  }
  if (Status status = use_receive_workers(false); !status) return status;
  auto slots = open_slot_pair(settings, group_of(options_.subgroups, options_, ip_, interface_),
                              options_.subgroups, interface_);
  if (!slots) return slots.status();
  slot_pair_ = std::move(*slots);
  // The announced receive window is that of one subgroup, because all chunks of a short message may
  // use the first subgroup.
  capabilities_.receive_window_bytes =
      static_cast<std::uint64_t>(static_cast<double>(smallest) * kPayloadShare);
  return {};
}

Status IpEndpoint::use_receive_workers(bool on) {
  for (std::uint32_t s = 0; s < groups_.size(); ++s) {
    epoll_event event{.events = EPOLLIN, .data = {}};
    const int operation = on ? EPOLL_CTL_DEL : EPOLL_CTL_ADD;
    if (::epoll_ctl(epoll_.get(), operation, groups_[s]->receive_descriptor(), &event) != 0) {
      return system_failure(errno, "watching a multicast socket");
    }
  }
  return {};
}

std::string IpEndpoint::description() const {
  const SocketAddress first = group_of(0, options_, ip_, interface_);
  return fmt::format("interface {} at {}, {} multicast to {}{}, datagrams carry {}",
                     interface_.name, interface_.address.to_string(), is_uc(ip_) ? "UC" : "UD",
                     first.to_string(),
                     groups_.size() > 1 ? fmt::format(" and {} more", groups_.size() - 1) : "",
                     datagrams_.integrity_kind() == wire::IntegrityKind::keyed_tag
                         ? "a keyed tag"
                         : "a CRC-32C (authentication is off)");
}

std::vector<std::byte> IpEndpoint::address() const {
  return encode(
      AddressRecord{.chunk_bytes = capabilities_.max_chunk_bytes,
                    .incarnation = incarnation_,
                    .receive_window_bytes = capabilities_.receive_window_bytes,
                    .datagram_bytes = datagram_payload_,
                    .multicast = ip_.multicast,
                    .slot_port = slot_pair_ ? slot_pair_->unicast_port() : std::uint16_t{0},
                    .socket = interface_.address});
}

Status IpEndpoint::use_secret(std::span<const std::byte> secret) {
  const auto keys = wire::TagKeys::keyed(secret, options_.communicator);
  if (!keys) return keys.status();
  datagrams_.set_tag_keys(*keys);
  for (auto& group : groups_) group->set_tag_keys(*keys);
  if (slot_pair_) slot_pair_->set_tag_keys(*keys);
  return {};
}

Status IpEndpoint::connect(std::span<const std::vector<std::byte>> addresses) {
  if (addresses.size() != peers_.size()) {
    return failure(Code::invalid_argument,
                   "{} addresses are given for {} ranks: give one for each rank", addresses.size(),
                   peers_.size());
  }
  std::vector<std::uint16_t> slot_ports(peers_.size());
  for (std::uint32_t r = 0; r < peers_.size(); ++r) {
    const auto record = decode_address_record(addresses[r]);
    if (!record) {
      return failure(Code::invalid_argument, "the address of rank {} is invalid: {}", r,
                     record.status().message());
    }
    if (record->socket.family() != ip_.family) {
      return failure(Code::invalid_argument,
                     "rank {} has the address {}, but this rank uses another IP version: choose "
                     "the same IP version on all ranks",
                     r, record->socket.to_string());
    }
    if (record->multicast != ip_.multicast) {
      return failure(Code::invalid_argument,
                     "rank {} multicasts by {}, this rank by {}: choose the same kind of multicast "
                     "on all ranks",
                     r, is_uc(ip_) ? "UD" : "UC", is_uc(ip_) ? "UC" : "UD");
    }
    channels_.set_incarnation(rank_of(r), record->incarnation);
    peers_[r] = record->socket;
    slot_ports[r] = record->slot_port;
    datagram_payload_ = std::min(datagram_payload_, record->datagram_bytes);
    capabilities_.max_chunk_bytes = std::min(capabilities_.max_chunk_bytes, record->chunk_bytes);
    capabilities_.receive_window_bytes =
        std::min(capabilities_.receive_window_bytes, record->receive_window_bytes);
  }
  if (ip_.family == AF_INET6) take_scope_of(interface_.address, peers_);
  const auto members = std::make_shared<const std::vector<SocketAddress>>(peers_);
  for (auto& group : groups_) group->set_members(members);
  if (slot_pair_) {
    introduce(members, slot_ports, *slot_pair_);
    slot_exchange_ = std::make_unique<slots::DatagramSlotExchange>(options_.rank, options_.size,
                                                                   *slot_pair_, datagram_payload_);
  }
  shape_chunks();
  rc::RcConfig config;
  config.max_frame_bytes = std::max<std::uint32_t>(datagram_payload_, rc::kMinFrameBytes);
  config.max_message_bytes = kLongestSendBytes;
  config.window_bytes = reliable_window_bytes(unicast_buffer_bytes_, options_.size);
  config.overhead_bytes =
      ip_and_udp_bytes(ip_.family) + static_cast<std::uint32_t>(wire::kHeaderBytes);
  config.peer_timeout = options_.peer_timeout;
  config.own_incarnation = incarnation_;
  return channels_.configure(config);
}

/// Derives the sizes of chunks and batches from the values that all ranks announced, so that all
/// ranks use the same sizes.
void IpEndpoint::shape_chunks() {
  capabilities_.max_chunk_bytes = std::min(
      capabilities_.max_chunk_bytes,
      is_uc(ip_) ? message_bytes_for_window(datagram_payload_, capabilities_.receive_window_bytes)
                 : datagram_payload_);
  capabilities_.max_send_batch = static_cast<std::uint32_t>(
      is_uc(ip_) ? std::clamp<std::uint32_t>(kMessageBatchBytes / capabilities_.max_chunk_bytes, 1,
                                             DatagramSender::kMaxBatch)
                 : DatagramSender::whole_batch(capabilities_.max_chunk_bytes + wire::kHeaderBytes));
  for (auto& group : groups_) group->set_fragment_bytes(datagram_payload_);
}

std::vector<std::uint32_t> IpEndpoint::probe_sizes() const {
  return datagram_sizes(ip_, datagram_payload_);
}

void IpEndpoint::probe_path(Rank peer, std::uint32_t bytes) {
  const std::vector<std::byte> padding(std::max<std::size_t>(bytes, wire::kHeaderBytes) -
                                       wire::kHeaderBytes);
  datagrams_.encode_probe(peer, padding, sender_.header_slot());
  sender_.add(wire::kHeaderBytes, padding);
  // A probe for which the send queue has no room counts as lost.
  (void)sender_.flush(unicast_.get(), &peers_[index(peer)]);
}

void IpEndpoint::limit_datagrams(std::uint32_t bytes) {
  datagram_payload_ = std::min(datagram_payload_, datagram_payload(ip_, bytes));
  shape_chunks();
  channels_.limit_frames(std::max<std::uint32_t>(datagram_payload_, rc::kMinFrameBytes));
  if (slot_exchange_) slot_exchange_->limit_chunks(datagram_payload_);
}

Status IpEndpoint::post(Instant now, const WorkRequest& request) {
  now_ = now;
  return channels_.post(now, request);
}

Status IpEndpoint::rejoin_groups(Instant now) {
  return rejoin_.begin(now, queue_pairs(groups_, slot_pair_), options_.local_ranks.size() > 1);
}

std::size_t IpEndpoint::poll(Instant now, std::span<Completion> completions) {
  now_ = now;
  // The status is ignored, because a failed attempt to join is repeated at the next deadline.
  if (now >= rejoin_.deadline()) (void)rejoin_.attempt(now, queue_pairs(groups_, slot_pair_));
  channels_.poll(now, *this, completions_);
  return take(completions);
}

std::size_t IpEndpoint::poll_posted(Instant now, std::span<Completion> completions) {
  now_ = now;
  channels_.poll_posted(now, *this, completions_);
  return take(completions);
}

std::size_t IpEndpoint::take(std::span<Completion> completions) {
  gate_.claim_for(channels_);
  for (auto& group : groups_) {
    for (const ProbeArrival& probe : group->take_probes()) {
      channels_.on_probe(now_,
                         {.opcode = Opcode::probe,
                          .peer = probe.source,
                          .immediate = probe.subgroup,
                          .probe_bytes = probe.bytes},
                         completions_);
    }
  }
  return completions_.take(completions);
}

bool IpEndpoint::receive(Instant now) {
  if (completions_.full()) return false;
  for (const FrameArrival& one : groups_.front()->frames().take())
    channels_.on_frame(now, one.source, one.frame, completions_);
  if (batch_.receive(unicast_.get()) == 0) return false;
  const auto from_host_of = [this](Rank source) {
    return batch_.sender().same_host(peers_[index(source)]);
  };
  while (const auto next = batch_.next()) {
    const std::span<const std::byte> datagram = *next;
    const auto received = datagrams_.decode(datagram, from_host_of, counters_);
    if (received && received->probe) {
      channels_.on_probe(now,
                         {.opcode = Opcode::probe,
                          .peer = received->source,
                          .immediate = kUnicast,
                          .probe_bytes = static_cast<std::uint32_t>(datagram.size())},
                         completions_);
    } else if (received) {
      channels_.on_frame(now, received->source, received->frame, completions_);
    }
  }
  return !batch_.drained();
}

void IpEndpoint::abandon() {
  channels_.abandon();
  gate_.withdraw();
  for (auto& group : groups_) group->release_claim();
  if (slot_pair_) slot_pair_->release_claim();
}

bool IpEndpoint::send(Instant now, Rank rank, rc::RcChannel& rc) {
  rc::OutgoingFrame frame;
  gate_.use(rc.backlog().priority);
  const auto kernel_holds_back = [&] {
    if (ip_.tap && ip_.tap->holds_back(options_.rank, rank)) return true;
    return unsent_bytes(unicast_.get()) > 0 &&
           link_address_missing(interface_, peers_[index(rank)]);
  };
  const MulticastToo which = unicast_doubt_.multicast_too(now, rank, kernel_holds_back);
  while (rc.next_frame(now, frame)) {
    const unsigned copies = ip_.tap ? ip_.tap->copies(options_.rank, rank, frame.size()) : 1;
    const bool lost = copies == 0 && ip_.tap->loses_multicast();
    const bool repeated = frame.resent || !frame.sequenced;
    const bool multicast =
        !lost && (which == MulticastToo::all || (which == MulticastToo::repeated && repeated));
    const bool held = which == MulticastToo::all && unsent_bytes(unicast_.get()) > kMostHeldBytes;
    if (copies == 0 || held) {
      if (multicast) groups_.front()->post_frame(rank, frame.bytes());
      continue;
    }
    for (unsigned copy = 0; copy < copies; ++copy) {
      if (!sender_.fits(wire::kHeaderBytes + frame.size()) && !flush(rank, rc)) {
        rc.take_back(frame);
        return false;
      }
      const auto datagram = datagrams_.encode(rank, frame, sender_.header_slot());
      sender_.add(datagram.head_bytes, datagram.rest);
      in_batch_.push_back({frame, multicast && copy == 0});
    }
  }
  return flush(rank, rc);
}

bool IpEndpoint::flush(Rank rank, rc::RcChannel& rc) {
  auto sent = sender_.flush(unicast_.get(), &peers_[index(rank)]);
  // A send error is ignored: the channel treats an unreachable network as loss, and gives up after
  // the peer timeout.
  const std::size_t accepted = sent ? *sent : in_batch_.size();
  for (std::size_t i = 0; i < accepted; ++i) {
    const BatchedFrame& one = in_batch_[i];
    if (one.multicast_too) groups_.front()->post_frame(rank, one.frame.bytes());
  }
  for (std::size_t i = in_batch_.size(); i > accepted; --i) rc.take_back(in_batch_[i - 1].frame);
  const bool room = accepted == in_batch_.size();
  in_batch_.clear();
  return room;
}

void IpEndpoint::send_sign_of_life() {
  unicast_doubt_.begin(now_);
  (void)groups_.front()->post_probe(0, 0);
}

/// Entries of a slot exchange may wake this rank only while it is in an exchange.
bool IpEndpoint::prepare_wait() {
  const bool watch = slot_exchange_ && slot_exchange_->waits();
  if (watch == slots_watched_) return true;
  epoll_event event{.events = EPOLLIN, .data = {}};
  const int operation = watch ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;
  if (::epoll_ctl(epoll_.get(), operation, slot_pair_->receive_descriptor(), &event) == 0)
    slots_watched_ = watch;
  return true;
}

void IpEndpoint::notify_when_sendable(bool on) {
  for (std::uint32_t s = 0; s < groups_.size(); ++s) {
    epoll_event event{.events = EPOLLOUT, .data = {}};
    const int operation = on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;
    (void)::epoll_ctl(epoll_.get(), operation, groups_[s]->send_descriptor(), &event);
  }
}

EndpointCounters IpEndpoint::counters() const {
  EndpointCounters sum = counters_;
  for (const auto& group : groups_) group->add_to(sum);
  if (slot_exchange_) {
    // Datagrams of slot exchanges are counted separately from those of blocks.
    EndpointCounters of_slots;
    slot_pair_->add_to(of_slots);
    sum.slot_datagrams_sent += of_slots.multicast_datagrams_sent;
    sum.slot_datagrams_received += of_slots.multicast_datagrams_received;
    sum.rejected_foreign += of_slots.rejected_foreign + slot_exchange_->rejected();
    sum.rejected_integrity += of_slots.rejected_integrity;
    sum.rejected_replayed += of_slots.rejected_replayed;
    sum.send_calls += of_slots.send_calls;
    sum.receive_calls += of_slots.receive_calls;
    sum.send_queue_full += of_slots.send_queue_full;
    sum.kernel_drops += of_slots.kernel_drops;
  }
  channels_.add_to(sum);
  sum.send_calls += sender_.calls();
  sum.receive_calls += batch_.calls();
  return sum;
}

}  // namespace tutti::device::ip
