#include "device/host/endpoint.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.hpp"

namespace tutti::device::host {

namespace {

// Receive window: bytes that other ranks may multicast before this rank has begun the collective.
constexpr std::uint64_t kReceiveWindowBytes = 8 << 20;
constexpr std::uint32_t kSendBatchChunks = 8;
constexpr std::uint32_t kMaxSubgroups = 256;
// First retransmission timeout. It is long, because shared memory loses nothing: a late answer only
// means that the peer has not polled yet.
constexpr Nanoseconds kPatience{50'000'000};

rc::RcConfig make_config(const EndpointOptions& options, const SegmentShape& shape) {
  rc::RcConfig config;
  // The longest message fits into one frame.
  config.max_frame_bytes = config.max_message_bytes + static_cast<std::uint32_t>(rc::kRcHeaderMax);
  config.window_bytes = static_cast<std::uint32_t>(shape.frame_capacity_bytes());
  config.rto_min = config.rto_first_max = kPatience;
  // An ACK does not wait for a reply that could carry it: a separate ACK costs only a few stores,
  // and no timer would end the wait.
  config.reply_wait = Nanoseconds(0);
  config.peer_timeout = options.peer_timeout;
  return config;
}

}  // namespace

Result<std::unique_ptr<Endpoint>> HostEndpoint::open(const EndpointOptions& options) {
  if (options.subgroups == 0 || options.subgroups > kMaxSubgroups) {
    return failure(Code::invalid_argument, "the number of subgroups is {}: use 1 to {}",
                   options.subgroups, kMaxSubgroups);
  }
  if (options.max_connections > 0) {
    return failure(
        Code::unsupported,
        "the device 'host' does not support max_connections ({}): set it to 0, or use the "
        "device 'ip'",
        options.max_connections);
  }
  if (options.local_ranks.size() != options.size) {
    return failure(Code::unsupported,
                   "only {} of the {} ranks are on this host, and shared memory reaches no others: "
                   "use the device 'ip'",
                   options.local_ranks.size(), options.size);
  }
  const SegmentShape shape{.ranks = options.size, .subgroups = options.subgroups};
  auto own = Segment::create(shape);
  if (!own) return own.status();
  std::unique_ptr<HostEndpoint> endpoint(new HostEndpoint(options, shape, std::move(*own)));
  if (Status status = endpoint->channels_.configure(make_config(options, shape)); !status)
    return status;
  return std::unique_ptr<Endpoint>(std::move(endpoint));
}

HostEndpoint::HostEndpoint(const EndpointOptions& options, const SegmentShape& shape, Segment own)
    : options_(options),
      shape_(shape),
      segments_(options.size),
      slot_exchange_(options.rank, segments_),
      peers_(options.size),
      channels_(options.rank, options.size),
      reads_(segments_, channels_) {
  using enum Capability;
  for (const Capability one : {multicast_ud, reliable_send, write, write_immediate, read,
                               masked_atomics, tag_matching, backpressure, every_chunk_arrives}) {
    capabilities_.bits |= static_cast<std::uint32_t>(one);
  }
  capabilities_.immediate_bits = 64;
  capabilities_.max_chunk_bytes = shape.chunk_ring().chunk_bytes;
  capabilities_.max_send_batch = kSendBatchChunks;
  capabilities_.receive_window_bytes = kReceiveWindowBytes;
  segments_[index(options.rank)] = std::move(own);
  for (std::uint32_t s = 0; s < options.subgroups; ++s) {
    groups_.push_back(std::make_unique<HostMulticastQueuePair>(options.rank, s, segments_));
  }
}

std::string HostEndpoint::description() const {
  return fmt::format("{} KiB of shared memory a rank, open to processes of this user",
                     shape_.bytes() >> 10);
}

Status HostEndpoint::connect(std::span<const std::vector<std::byte>> addresses) {
  if (addresses.size() != peers_.size()) {
    return failure(Code::invalid_argument,
                   "{} addresses are given for {} ranks: give one for each rank", addresses.size(),
                   peers_.size());
  }
  for (std::uint32_t r = 0; r < addresses.size(); ++r) {
    if (rank_of(r) == options_.rank) continue;
    const auto address = SegmentAddress::decode(addresses[r]);
    if (!address) {
      return failure(Code::invalid_argument, "the address of rank {} is invalid: {}", r,
                     address.status().message());
    }
    auto segment = Segment::open(*address, shape_);
    if (!segment)
      return failure(segment.status().code(), "the shared memory of rank {} is unusable: {}", r,
                     segment.status().message());
    segments_[r] = std::move(*segment);
    peers_[r].out = FrameWriter(segments_[r].frames_from(options_.rank));
    peers_[r].in = FrameReader(own().frames_from(rank_of(r)));
  }
  for (auto& group : groups_) group->connect();
  slot_exchange_.connect();
  return {};
}

HostEndpoint::~HostEndpoint() { own().regions().withdraw_all(); }

Result<MemoryKey> HostEndpoint::register_memory(std::span<std::byte> memory) {
  auto key = channels_.memory().add(memory);
  if (key) own().regions().publish(*key, memory);
  return key;
}

void HostEndpoint::deregister_memory(MemoryKey key) {
  own().regions().withdraw(key);
  channels_.memory().remove(key);
}

void HostEndpoint::abandon() {
  reads_.abandon();
  channels_.abandon();
}

Status HostEndpoint::post(Instant now, const WorkRequest& request) {
  now_ = now;
  return reads_.take(request) ? Status() : channels_.post(now, request);
}

std::size_t HostEndpoint::poll(Instant now, std::span<Completion> completions) {
  now_ = now;
  rise();
  channels_.poll(now, *this, completions_);
  reads_.poll(now, completions_);
  collect_probes();
  return completions_.take(completions);
}

void HostEndpoint::rise() {
  if (!slept_) return;
  slept_ = false;
  own().head().sleep.store(static_cast<std::uint32_t>(Sleep::awake), std::memory_order_relaxed);
  own().head().with_inline_engine.store(0, std::memory_order_relaxed);
  own().silence_bell();
}

bool HostEndpoint::receive(Instant now) {
  if (completions_.full()) return false;
  for (std::uint32_t r = 0; r < peers_.size(); ++r) {
    if (rank_of(r) != options_.rank) receive_from(now, rank_of(r), peers_[r]);
  }
  return false;
}

void HostEndpoint::receive_from(Instant now, Rank rank, Peer& peer) {
  // The number of frames per poll is bounded, so that one peer cannot keep the caller busy.
  constexpr int kMaxFrames = 64;
  // A short frame is copied before it is decoded, because the peer could change its bytes between
  // two steps of the decoding. A longer frame carries data, which is copied only once, to its
  // destination.
  std::array<std::byte, 1024> copy;
  for (int i = 0; i < kMaxFrames; ++i) {
    const std::span<const std::byte> shared = peer.in.front();
    if (shared.empty()) break;
    std::span<const std::byte> frame = shared;
    if (shared.size() <= copy.size()) {
      std::memcpy(copy.data(), shared.data(), shared.size());
      frame = std::span(copy).first(shared.size());
    }
    channels_.on_frame(now, rank, frame, completions_);
    peer.in.pop(shared.size());
  }
  if (peer.in.broken() && !channels_[rank].failed()) {
    ++counters_.rejected_foreign;
    channels_[rank].fail(Code::peer_failed, completions_);
  }
}

/// Sends the frames that are ready for a peer. Returns true even if the ring to this peer is full,
/// because frames to other peers, which have rings of their own, can still be sent.
bool HostEndpoint::send(Instant now, Rank rank, rc::RcChannel& rc) {
  Peer& peer = peers_[index(rank)];
  rc::OutgoingFrame frame;
  bool any = false;
  bool work = false;
  peer.ring_full = false;
  while (rc.next_frame(now, frame)) {
    std::byte* const place = peer.out.reserve(frame.size());
    if (place == nullptr) {
      rc.take_back(frame);
      peer.ring_full = true;
      ++counters_.send_queue_full;
      break;
    }
    std::memcpy(place, frame.header.data(), frame.header_bytes);
    if (!frame.payload.empty())
      std::memcpy(place + frame.header_bytes, frame.payload.data(), frame.payload.size());
    peer.out.commit();
    any = true;
    work |= frame.sequenced || frame.asks;
  }
  if (any) counters_.send_calls += segments_[index(rank)].wake(!work) ? 1 : 0;
  return true;
}

void HostEndpoint::collect_probes() {
  for (auto& group : groups_) {
    for (const Rank source : group->take_probes()) {
      channels_.on_probe(now_,
                         {.opcode = Opcode::probe, .peer = source, .immediate = group->subgroup()},
                         completions_);
    }
  }
}

bool HostEndpoint::anything_to_poll() const {
  const bool chunks =
      std::any_of(groups_.begin(), groups_.end(), [](const auto& one) { return one->pending(); });
  if (chunks || !completions_.empty() || !reads_.empty() || slot_exchange_.pending()) return true;
  for (std::uint32_t r = 0; r < peers_.size(); ++r) {
    if (rank_of(r) != options_.rank && !peers_[r].in.empty() && !peers_[r].in.broken()) return true;
  }
  return false;
}

bool HostEndpoint::prepare_wait() {
  const std::vector<Rank>& open = channels_.open();
  const bool awaits = std::any_of(open.begin(), open.end(), [this](Rank rank) {
    return channels_[rank].awaits_peer() || peers_[index(rank)].ring_full;
  });
  slept_ = true;
  own().head().with_inline_engine.store(slot_exchange_.missing().empty() ? 0 : 1,
                                        std::memory_order_relaxed);
  own().head().sleep.store(
      static_cast<std::uint32_t>(awaits ? Sleep::for_acknowledgements : Sleep::for_work),
      std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return !anything_to_poll();
}

Instant HostEndpoint::next_deadline() const {
  if (!reads_.empty() || channels_.untransmitted()) return now_;
  // Nothing is lost in shared memory, so a timer is needed only while this rank waits for a peer. A
  // delayed ACK needs no timer: no rank waits for it, and the next poll sends it.
  Instant deadline = kNever;
  for (const Rank rank : channels_.open()) {
    const rc::RcChannel& one = channels_.at(rank);
    if (one.watched() || one.awaits_peer()) deadline = std::min(deadline, one.next_deadline());
  }
  return deadline;
}

EndpointCounters HostEndpoint::counters() const {
  EndpointCounters sum = counters_;
  sum.send_calls += slot_exchange_.wakes();
  for (const auto& group : groups_) group->add_to(sum);
  channels_.add_to(sum);
  sum.read_bytes_direct += reads_.bytes_read();
  return sum;
}

}  // namespace tutti::device::host
