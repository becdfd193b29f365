#include "engine/multicast/multicast_operation.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "engine/core/communicator_context.hpp"

namespace tutti::engine {

namespace {

// Shortest time before a draining queue is polled again.
constexpr Nanoseconds kQueueRetryMin{20'000};
// Bytes that a late paced sender may send at once to catch up.
constexpr std::uint64_t kCatchUpBytes = 128 * 1024;
// Bytes that all paced senders together may put into a switch's queue at the start.
constexpr std::uint64_t kPacedBurstBytes = 448 * 1024;
// Paced senders exceed the measured link rate a little, so that the link does not idle while a
// sender's host is busy or the estimate is low: by an eighth, limited to so many bytes in total,
// which a switch's queue absorbs.
constexpr std::uint64_t kExcessDivisor = 8;
constexpr std::uint64_t kExcessBytes = 256 * 1024;
constexpr std::uint32_t kLongBlock = 64;  // chunks; one more adds little to a block this long

}  // namespace

using protocol::Block;
using protocol::Message;
using protocol::MessageKind;

MulticastOperation::MulticastOperation(const Description& description, std::span<std::byte> buffer,
                                       std::span<const std::byte> own, bool gather)
    : Operation(description),
      buffer_(buffer),
      own_(own),
      gather_(gather),
      data_bytes_(buffer.size()) {}

std::unique_ptr<MulticastOperation> MulticastOperation::broadcast(std::span<std::byte> buffer,
                                                                  Rank root) {
  return std::unique_ptr<MulticastOperation>(new MulticastOperation(
      {"broadcast", "multicast", root, buffer.size()}, buffer, buffer, false));
}

std::unique_ptr<MulticastOperation> MulticastOperation::allgather(std::span<const std::byte> own,
                                                                  std::span<std::byte> receive) {
  return std::unique_ptr<MulticastOperation>(new MulticastOperation(
      {"allgather", "multicast", kNoRank, receive.size()}, receive, own, true));
}

std::unique_ptr<MulticastOperation> MulticastOperation::allgatherv(
    std::span<const std::byte> own, std::span<std::byte> receive,
    std::span<const std::uint64_t> sizes, std::span<const std::uint64_t> offsets) {
  std::unique_ptr<MulticastOperation> made(new MulticastOperation(
      {"allgatherv", "multicast", kNoRank, receive.size()}, receive, own, true));
  made->data_bytes_ = 0;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    made->places_.push_back({offsets[r], sizes[r]});
    made->data_bytes_ += sizes[r];
  }
  return made;
}

bool MulticastOperation::prepare(CommunicatorContext& context) {
  const std::uint32_t forced = context.settings().chains;
  chains_ = forced == 0 ? 1 : forced;
  lossless_ = context.every_chunk_arrives();
  retains_copy_ = !lossless_ && !gather_ && context.keeps(data_bytes_);
  if (!gather_ || data_bytes_ == 0 || context.size() < 2) return false;
  if (lossless_ && forced == 0) {
    // No link is shared and no buffer can overrun: a full ring blocks its sender. Sending at once
    // is faster than taking turns here.
    chains_ = context.size();
    return false;
  }
  plan_ = context.turn_taking().next(data_bytes_);
  if (forced != 0) {
    plan_ = {};
    return false;
  }
  // Data that exceeds the receive windows needs the credits of a single stream.
  if (plan_.at_once && plan_.bytes_per_second == 0 && data_bytes_ > context.window_bytes())
    plan_ = {};
  if (plan_.at_once) chains_ = context.size();
  return context.turn_taking().votes(data_bytes_);
}

void MulticastOperation::build_layout() {
  const std::uint64_t window = context().window_bytes();
  const std::uint32_t subgroups = context().endpoint().subgroup_count();
  std::uint64_t block_bytes = gather_ ? own_.size() : buffer_.size();
  for (const BlockExtent& place : places_) block_bytes = std::max(block_bytes, place.size_bytes);
  const std::uint64_t pulse =
      std::max<std::uint64_t>(window / context().settings().pulses_in_flight, 1);
  layout_ = protocol::BlockLayout(context().chunk_bytes(), subgroups, std::min(block_bytes, pulse));
  if (!gather_) {
    layout_.add(description().root, 0, buffer_.size());
    if (description().root == context().rank()) own_block_ = 0;
    return;
  }
  for (std::uint32_t r = 0; r < context().size(); ++r) {
    const BlockExtent place =
        places_.empty() ? BlockExtent{r * own_.size(), own_.size()} : places_[r];
    layout_.add(rank_of(r), place.offset_bytes, place.size_bytes);
  }
  own_block_ = index(context().rank());
}

void MulticastOperation::start(Instant now, bool barrier) {
  build_layout();
  if (layout_.chunk_count() == 0) {
    handshake_ = nullptr;  // nothing to move: complete at once
    map_ = std::make_unique<protocol::ChunkMap>(layout_);
    return;
  }
  const Rank me = context().rank();
  const std::uint32_t size = context().size();
  const Settings& settings = context().settings();
  map_ = std::make_unique<protocol::ChunkMap>(layout_);
  const auto senders = static_cast<std::uint32_t>(layout_.blocks().size());
  sequencer_ = std::make_unique<protocol::Sequencer>(senders, chains_);
  cutoff_ = std::make_unique<protocol::Cutoff>(settings.cutoff, context().jitter());
  scanner_ = std::make_unique<protocol::LossScanner>(*map_);
  fetch_ = std::make_unique<protocol::FetchRing>(
      me, size, epoch(), *map_, settings.fetch,
      retains_copy_ ? protocol::FetchFrom::root : protocol::FetchFrom::neighbours);
  credits_ = std::make_unique<protocol::CreditWindow>(
      me, size, epoch(), *map_, chains_, context().window_bytes() / layout_.chunk_bytes(),
      settings.pulses_in_flight);
  handshake_ = std::make_unique<protocol::Handshake>(
      retains_copy_ || lossless_ ? protocol::Handshake::unneeded(me, epoch())
                                 : protocol::Handshake(me, size, epoch()));
  first_chunk_seen_.resize(layout_.blocks().size());
  for (std::uint32_t b = 0; b < senders; ++b) {
    if (b == own_block_ || layout_.blocks()[b].psns.empty()) continue;
    ++ends_expected_;
    if (context().team() != nullptr) open_blocks_.push_back(b);
  }
  if (context().team() != nullptr) read_locked_ = SharedBitmap(layout_.chunk_count());
  meter_ = std::make_unique<ArrivalMeter>(senders, chains_ == 1);
  trace_.start(context().trace(), epoch(), layout_);
  admit_own_block();
  completion()->chunks_total = layout_.chunk_count();
  if (barrier) context().recorder().enter(epoch(), observe::Phase::ready, now);
  if (size == 1) {
    become_ready(now);
    return;
  }
  if (barrier) {
    barrier_ = std::make_unique<protocol::ReadyBarrier>(me, size, epoch(), context().vote());
    barrier_->start(outbox_);
    ++context().counters().ready_by_barrier;
  } else {
    ++context().counters().ready_by_credit;
    become_ready(now);
  }
  flush(now);
}

void MulticastOperation::admit_own_block() {
  if (own_block_ == kNoBlock) return;
  const Block& block = layout_.blocks()[own_block_];
  map_->mark_run(own_block_, block.psns);
  dirty_ = true;
  if (context().size() == 1) {
    place_own_up_to(block.psns.last);
    return;
  }
  sent_all_ = false;  // an empty block's turn is passed on too
  fetch_->withhold(block.psns);
  sender_ = std::make_unique<BlockSender>(layout_, own_block_, own_, epoch(), context().endpoint(),
                                          context().counters());
  activated_ = sequencer_->first(rank_of(own_block_));
}

void MulticastOperation::become_ready(Instant now) {
  ready_ = dirty_ = true;
  ready_at_ = last_arrival_ = now;
  const std::uint64_t bytes = data_bytes_;
  if (plan_.bytes_per_second > 0) {
    const std::uint64_t others = context().size() - 1;
    const std::uint64_t share = (plan_.bytes_per_second + excess_rate()) / others;
    sender_->set_pace(protocol::Pace(now, share, kCatchUpBytes), kPacedBurstBytes / others);
  }
  cutoff_->arm(
      now,
      Nanoseconds(static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 /
                                            static_cast<double>(context().bytes_per_second()))));
  next_tick_ = now + tick_interval();
  context().counters().ready_phase_ns += static_cast<std::uint64_t>((now - started()).count());
  context().recorder().enter(epoch(), observe::Phase::data, now);
}

// ---- receiving

bool MulticastOperation::belongs(std::uint32_t psn, Rank source, std::size_t bytes) {
  return fetch_ && plausible(layout_, psn, source, bytes, last_block_);
}

void MulticastOperation::on_malformed(Rank source) {
  ++context().counters().chunks_malformed;
  if (lossless_) context().fail_without_slow_path(source);
}

/// Handles a chunk that does not fit the layout: a damaged or forged header or, if its payload is
/// intact, a peer that calls with other sizes. In the latter case the missing data would never be
/// sent.
void MulticastOperation::on_misfit(const device::ReceivedChunk& chunk,
                                   device::MulticastQueuePair& queue_pair) {
  on_malformed(chunk.source);
  if (lossless_ || !fetch_) return;
  std::vector<std::byte> aside(chunk.payload.size());
  if (queue_pair.place(chunk, aside.data())) on_other_sizes(chunk.source, aside.size());
}

void MulticastOperation::on_other_sizes(Rank source, std::size_t bytes) {
  context().fail(failure(Code::invalid_argument,
                         "{} multicast {} bytes that do not fit this rank's call: call with the "
                         "same sizes and root on all ranks",
                         context().name_of(source), bytes));
}

/// Address at which a chunk may be written; null if it may not, which is counted if `counted`.
std::byte* MulticastOperation::place_of(std::uint32_t psn, bool counted) {
  // A chunk being READ may be in place in part, already verified: a damaged datagram must not
  // overwrite it.
  if (map_->has(last_block_, psn) || fetch_->reading(psn)) {
    if (counted) ++context().counters().chunks_duplicate;
    return nullptr;
  }
  return buffer_.data() + layout_.offset_of(layout_.blocks()[last_block_], psn);
}

device::Placement MulticastOperation::landing(const device::MessageHead& chunk, bool begins) {
  if (!belongs(chunk.psn, chunk.source, chunk.bytes)) {
    // Examined once it has passed its integrity check (on_misfit).
    if (!lossless_) return {device::Placement::Where::staging};
    if (begins) on_malformed(chunk.source);
    return {};
  }
  std::byte* const place = place_of(chunk.psn, begins);
  if (place == nullptr) return {};
  return {device::Placement::Where::buffer, place};
}

void MulticastOperation::on_chunk(Instant now, const device::ReceivedChunk& chunk,
                                  device::MulticastQueuePair& queue_pair) {
  observe::Counters& counters = context().counters();
  if (!belongs(chunk.psn, chunk.source, chunk.payload.size())) {
    on_misfit(chunk, queue_pair);
    return;
  }
  std::byte* const place = place_of(chunk.psn, true);
  if (place == nullptr) return;
  if (!queue_pair.place(chunk, place)) {
    ++counters.chunks_damaged;
    if (lossless_) context().fail_without_slow_path(chunk.source);
    return;
  }
  const std::uint32_t b = last_block_;
  const Block& block = layout_.blocks()[b];
  if (chunk.psn + 1 < map_->horizon(b, layout_.subgroup_of(block, chunk.psn))) {
    ++counters.chunks_out_of_order;
  }
  map_->mark(block, b, chunk.psn);
  ++counters.chunks_received;
  if (gather_) meter_->arrived(now, b, chunk.payload.size(), !first_chunk_seen_[b]);
  on_marked(now, b);
  if (chunk.psn + 1 < block.psns.last) return;
  trace_.collected(b);
  on_block_end(now);
}

void MulticastOperation::cast_vote(Instant now) {
  constexpr std::uint64_t kLossyShare = 20;  // loss above one chunk in this many
  constexpr std::uint64_t kCongestedShare =
      50;  // loss below one chunk in this many is not caused by the pace
  // One lost chunk of a few is no evidence of an overflowing queue.
  if (data_bytes_ <= protocol::SendSchedule::kSmallBytes) return;
  protocol::RateVote& vote = context().vote();
  if (fetch_->counters().chunks_lost * kLossyShare > layout_.chunk_count()) vote.lossy = true;
  if (chains_ == 1) vote.link_bound = sender_ && sender_->queue_filled();
  const bool paced = plan_.bytes_per_second > 0;
  if (chains_ != 1 && !paced) return;
  std::uint64_t rate = meter_->bytes_per_second();
  // Blocks too short to be measured alone: in turns, all of them together take P N / B.
  if (rate == 0) rate = ArrivalMeter::rate(data_bytes_, now - ready_at_);
  if (paced && rate > 0) {
    rate = protocol::learned_rate(
        plan_.bytes_per_second, rate, meter_->measured_time(),
        fetch_->counters().chunks_lost * kCongestedShare > layout_.chunk_count());
  }
  const auto kib = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(rate / 1024, protocol::RateVote::kNoRate - 1));
  // The maximum over several collectives: disturbances make one look slower, never faster.
  vote.rate_kib = vote.rate_kib == protocol::RateVote::kNoRate ? kib : std::max(vote.rate_kib, kib);
}

std::uint64_t MulticastOperation::excess_rate() const {
  return std::min(plan_.bytes_per_second / kExcessDivisor,
                  plan_.bytes_per_second * kExcessBytes / data_bytes_);
}

void MulticastOperation::on_unexpected_chunk(Instant now, std::uint32_t psn, Rank source,
                                             std::span<const std::byte> payload) {
  if (!belongs(psn, source, payload.size())) {
    on_malformed(source);
    if (!lossless_ && fetch_) on_other_sizes(source, payload.size());
    return;
  }
  const std::uint32_t b = last_block_;
  const Block& block = layout_.blocks()[b];
  if (map_->has(b, psn)) {
    ++context().counters().chunks_duplicate;
    return;
  }
  std::memcpy(buffer_.data() + layout_.offset_of(block, psn), payload.data(), payload.size());
  map_->mark(block, b, psn);
  ++context().counters().chunks_received;
  on_marked(now, b);
}

void MulticastOperation::on_marked(Instant now, std::uint32_t block_index) {
  const bool begun = first_chunk_seen_[block_index];
  if (!begun) begin_block(block_index);
  dirty_ = true;
  if (now == last_arrival_) return;
  // The wait for a block's first chunk measures how late its sender was, not the jitter of the
  // stream.
  if (begun) context().jitter().observe(now - last_arrival_);
  last_arrival_ = now;
  cutoff_->progress(now);
}

// Once every block's last chunk has arrived, missing chunks are lost or reordered. They are
// requested as soon as reordering is ruled out, because nothing else delays the end then.
void MulticastOperation::on_block_end(Instant now) {
  if (++ends_seen_ < ends_expected_ || received_all() || !ready_) return;
  next_tick_ = now + context().settings().reorder_delay;
}

void MulticastOperation::begin_block(std::uint32_t block_index) {
  first_chunk_seen_[block_index] = true;
  trace_.collecting(block_index);
  end_blocks_before(block_index);
}

/// A sender is activated only when its predecessor has sent its whole block, which may be empty.
void MulticastOperation::end_blocks_before(std::uint32_t block_index) {
  for (Rank before = sequencer_->predecessor(rank_of(block_index)); before != kNoRank;
       before = sequencer_->predecessor(before)) {
    if (layout_.blocks()[index(before)].psns.empty()) continue;
    if (context().team() != nullptr) {
      sender_done_.push_back(index(before));
    } else {
      scanner_->ended(index(before));
    }
    return;
  }
}

// ---- messages

void MulticastOperation::on_message(Instant now, Rank from, const Message& message) {
  if (!fetch_) return;
  bool legal = true;
  switch (message.kind) {
    case MessageKind::barrier:
      legal = barrier_ && barrier_->on_message(from, message.argument, outbox_);
      if (legal && barrier_->done() && !ready_) {
        context().turn_taking().adopt(barrier_->vote());
        context().vote().lossy = false;
        context().vote().rate_kib = protocol::RateVote::kNoRate;
        become_ready(now);
      }
      break;
    case MessageKind::activate:
      legal = own_block_ != kNoBlock && from == sequencer_->predecessor(context().rank());
      activated_ = activated_ || legal;
      break;
    case MessageKind::fetch_request:
      if (lossless_) {
        legal = false;
      } else if (retains_copy_) {
        legal = sender_ != nullptr;
        if (legal) context().answer_from_copy(now, from, message);
      } else {
        legal = fetch_->on_request(from, message, key(), outbox_);
      }
      break;
    case MessageKind::fetch_ready:
      // Handled after the multicast chunks that arrived before it, which need not be READ.
      ready_answers_.push_back({from, message});
      break;
    case MessageKind::fetch_pending:
    case MessageKind::fetch_lost:
    case MessageKind::fetch_expired:
      legal = fetch_->on_answer(now, from, message, outbox_, orders_);
      if (retains_copy_ && message.kind == MessageKind::fetch_expired) {
        legal = from == description().root;
        if (legal) fail_unserved(from);
      }
      break;
    case MessageKind::retransmit_request:
      legal = sender_ && fetch_->on_retransmit_request(now, message, hinted_);
      for (const Range range : std::exchange(hinted_, {})) sender_->again(range);
      break;
    case MessageKind::final:
      legal = handshake_->on_final(from);
      if (legal && !received_all()) cut_off(now, protocol::CutoffReason::neighbour_finished);
      break;
    case MessageKind::credit:
      legal = credits_->on_credit(from, message.argument, outbox_);
      break;
    case MessageKind::grant:
      legal = credits_->on_grant(message.argument);
      ++context().counters().credits_granted;
      break;
    default:
      legal = false;
  }
  if (!legal) ++context().counters().messages_rejected;
  flush(now);
}

// ---- sending

bool MulticastOperation::send_some(Instant now) {
  if (!sender_) return false;
  sender_->begin_round();
  bool worked = sender_->has_again() && sender_->send_again();
  if (ready_ && activated_ && !sent_all_) worked |= send_block(now);
  if (!sender_->status().ok()) context().fail(sender_->status());
  return worked;
}

bool MulticastOperation::send_block(Instant now) {
  const std::uint32_t end = layout_.blocks()[own_block_].psns.last;
  const std::uint32_t limit = credits_->limit(own_block_);
  trace_.sending();
  const bool worked = sender_->send(now, limit);
  const std::uint32_t lowest = sender_->lowest_unsent();
  place_own_up_to(lowest);
  fetch_->withhold({lowest, end});
  note_stall(now, lowest < end && lowest >= limit, worked);
  if (lossless_ && sender_->blocked()) watch_readers();
  if (lowest >= end) finish_sending(now);
  return worked;
}

/// Copies the sent part of this rank's block to its place in the receive buffer, where neighbours
/// fetch it. Copying only after sending keeps the sender busy and finds the data in the cache.
void MulticastOperation::place_own_up_to(std::uint32_t psn) {
  const Block& block = layout_.blocks()[own_block_];
  std::byte* const place = buffer_.data() + block.offset_bytes;
  const std::uint64_t end =
      std::min<std::uint64_t>(layout_.offset_of(block, psn) - block.offset_bytes, own_.size());
  if (place != own_.data() && end > own_placed_bytes_)
    std::memcpy(place + own_placed_bytes_, &own_[own_placed_bytes_], end - own_placed_bytes_);
  own_placed_bytes_ = end;
}

/// A receiver does not read the ring. Without a handshake no other rank need wait for it, so that
/// only this rank would notice that it is dead.
void MulticastOperation::watch_readers() {
  if (std::exchange(readers_watched_, true)) return;
  context().watch_all();
}

void MulticastOperation::note_stall(Instant now, bool stalled, bool worked) {
  observe::Counters& counters = context().counters();
  if (stalled && stalled_since_ == Instant{}) {
    stalled_since_ = now;
    ++counters.credit_stalls;
    repeat_after_ = cutoff_->alpha();
    next_repeat_ = now + repeat_after_;
  } else if (worked && stalled_since_ != Instant{}) {
    counters.credit_stall_ns += static_cast<std::uint64_t>((now - stalled_since_).count());
    stalled_since_ = {};
    next_repeat_ = kNever;
  }
}

std::uint64_t MulticastOperation::activation_threshold_bytes() const {
  const double lead = static_cast<double>(context().settings().activation_lead.count()) / 1e9;
  return static_cast<std::uint64_t>(lead * static_cast<double>(context().bytes_per_second()));
}

void MulticastOperation::finish_sending(Instant now) {
  const std::uint64_t unsent = sender_->unsent_bytes();
  // Data still queued in this host keeps the link busy while the activation travels; more than that
  // would pile up in the switch with every turn of the chain.
  const std::uint64_t threshold = activation_threshold_bytes();
  if (unsent > threshold) {
    const double seconds =
        static_cast<double>(unsent - threshold) / static_cast<double>(context().bytes_per_second());
    sender_->drain(std::max(kQueueRetryMin, Nanoseconds(static_cast<std::int64_t>(seconds * 1e9))));
    return;
  }
  if (!successor_activated_) {
    successor_activated_ = true;
    const Rank next = sequencer_->successor(rank_of(own_block_));
    if (next != kNoRank) {
      outbox_.send(next, MessageKind::activate, epoch());
      ++context().counters().activations;
    }
  }
  trace_.sent(own_block_);
  sent_all_ = dirty_ = true;
  if (lossless_) return;
  if (retains_copy_) {
    // No receiver reports a lost last chunk before its cutoff.
    if (context().lossy()) sender_->send_tail_probe();
    return;
  }
  repeat_after_ = cutoff_->alpha();
  // On a lossy network the last chunk is sent twice: its loss costs a cutoff, a duplicate little.
  const bool twice = context().lossy() && layout_.blocks()[own_block_].psns.size() >= kLongBlock;
  next_repeat_ = twice ? now : now + repeat_after_;
}

// Until the right neighbour has everything, the last chunk is repeated from time to time, so that a
// rank that lost the tail of this block, or all of it, learns that it was sent.
void MulticastOperation::send_tail_probe(Instant now) {
  if (now < next_repeat_ || !sender_) return;
  // While other blocks still arrive, no rank can have finished, and a lost tail of this block
  // delays none yet. After the last of them, the news that all ranks have it is probably on its
  // way.
  if (sent_all_ && !context().lossy()) {
    const Instant quiet = cutoff_->last_progress() + cutoff_->alpha();
    if (now < quiet) {
      next_repeat_ = quiet;
      return;
    }
  }
  repeat_after_ = std::min(repeat_after_ * 2, Nanoseconds(100'000'000));
  next_repeat_ = now + repeat_after_;
  sender_->send_tail_probe();
}

/// Retains the block at the root, or acknowledges it at a receiver.
void MulticastOperation::leave_copy(Instant now) {
  if (sender_) {
    context().retain_block(now, epoch(), own_);
  } else {
    context().schedule_ack(now, description().root, epoch());
  }
}

// ---- polling

bool MulticastOperation::poll(Instant now) {
  if (!fetch_) return false;
  polled_at_ = now;
  if (!ready_answers_.empty()) order_reads(now);
  bool worked = send_some(now);
  tick(now);
  check_cutoff(now);
  if (!handshake_->heard()) send_tail_probe(now);
  if (dirty_) {
    dirty_ = false;
    completion()->chunks_present.store(map_->marked(), std::memory_order_relaxed);
    if (fetch_->has_deferred()) fetch_->serve_deferred(key(), outbox_);
    credits_->consume(*fetch_, outbox_);
    if (locally_complete() && !handshake_->told()) {
      data_end_ = now;
      trace_.collected_all();
      context().counters().data_phase_ns += static_cast<std::uint64_t>((now - ready_at_).count());
      context().observe_rate(data_bytes_, now - ready_at_);
      context().recorder().enter(epoch(), observe::Phase::handshake, now);
      if (gather_) cast_vote(now);
      if (retains_copy_) leave_copy(now);
      handshake_->finish(outbox_);
    }
  }
  if (!fetch_->idle()) fetch_->poll(now, outbox_);
  worked |= !outbox_.empty();
  flush(now);
  if (ReceiveTeam* team = context().team(); team != nullptr && team->epoch() == epoch()) {
    team->set_eager(credits_->needed() || fetch_->has_deferred() || answers_read_locked_ > 0);
  }
  return worked;
}

void MulticastOperation::flush(Instant now) {
  if (!outbox_.empty()) context().send(now, outbox_);
}

Instant MulticastOperation::next_deadline() const {
  if (!fetch_) return kNever;
  Instant deadline = fetch_->next_deadline();
  if (may_lack()) {
    deadline = std::min({deadline, next_tick_, cutoff_->deadline()});
  }
  if (!handshake_->heard()) deadline = std::min(deadline, next_repeat_);
  // A full queue in this host is polled again soon, because no event reports that it has drained.
  const auto retry = sender_ ? sender_->retry_after() : std::nullopt;
  if (retry) deadline = std::min(deadline, polled_at_ + *retry);
  if (settled()) deadline = std::min(deadline, polled_at_ + kQueueRetryMin);
  if (ready_ && activated_ && !sent_all_ && !retry) {
    deadline = std::min(deadline, sender_->next_send());
  }
  return deadline;
}

bool MulticastOperation::locally_complete() const {
  // A receiver does not need the barrier, but others may need its messages.
  return !fetch_ || (ready_ && sent_all_ && received_all());
}

bool MulticastOperation::done() const {
  if (!fetch_) return true;
  // A device may read the buffer until the last chunk, including retransmissions, has left.
  return settled() && !(sender_ && sender_->reads_posted());
}

bool MulticastOperation::settled() const {
  return locally_complete() && handshake_->done() && open_reads_ == 0 &&
         !(sender_ && sender_->has_again());
}

void MulticastOperation::finish() {
  if (!fetch_) return;
  fold_counters();
  context().recorder().progress(epoch(), map_->marked(), layout_.chunk_count());
  if (registered_) context().endpoint().deregister_memory(key_);
  registered_ = false;
}

void MulticastOperation::fold_counters() {
  observe::Counters& sum = context().counters();
  const protocol::FetchCounters& fetch = fetch_->counters();
  context().observe_loss(fetch.chunks_lost + fetch.ranges_served > 0);
  sum.chunks_lost += fetch.chunks_lost;
  sum.chunks_fetched += fetch.chunks_read;
  sum.bytes_fetched += fetch.bytes_read;
  sum.fetch_ranges_asked += fetch.ranges_asked;
  sum.fetch_ranges_served += fetch.ranges_served;
  sum.fetch_ranges_deferred += fetch.ranges_deferred;
  sum.fetch_targets_skipped += fetch.targets_skipped;
  sum.retransmit_requests_sent += fetch.retransmit_requests_sent;
}

observe::Phase MulticastOperation::phase() const {
  if (!ready_) return observe::Phase::ready;
  return locally_complete() ? observe::Phase::handshake : observe::Phase::data;
}

std::string MulticastOperation::missing() const {
  constexpr int kMaxRuns = 6;
  if (!fetch_) return {};
  std::string text;
  int runs = 0;
  for (std::uint32_t b = 0; b < layout_.blocks().size(); ++b) {
    const Block& block = layout_.blocks()[b];
    Range rest = block.psns;
    while (!rest.empty()) {
      const Range missing = map_->first_missing(b, rest);
      if (missing.empty()) break;
      rest.first = missing.last;
      if (++runs > kMaxRuns) return text + ", ...";
      text += fmt::format("{}rank {}'s chunks {}-{} of {}", text.empty() ? "" : ", ",
                          index(block.root), missing.first - block.psns.first,
                          missing.last - 1 - block.psns.first, block.psns.size());
    }
  }
  return text;
}

}  // namespace tutti::engine
