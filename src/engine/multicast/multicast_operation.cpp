#include "engine/multicast/multicast_operation.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "engine/core/communicator_context.hpp"
#include "protocol/credits/credit_batches.hpp"

namespace tutti::engine {

using protocol::Block;
using protocol::Message;
using protocol::MessageKind;

MulticastOperation::MulticastOperation(const Description& description, std::span<std::byte> buffer,
                                       std::span<const std::byte> own, bool gather)
    : Operation(description) {
  call_.buffer = buffer;
  call_.own = own;
  call_.gather = gather;
  call_.data_bytes = buffer.size();
}

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
  made->call_.data_bytes = 0;
  made->call_.own_offsets = true;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    made->extents_.push_back({offsets[r], sizes[r]});
    made->call_.data_bytes += sizes[r];
  }
  return made;
}

// No rank needs data of a rank with an empty block. So other ranks may end the call before the rank
// with the empty block has begun it.
bool MulticastOperation::confirms_earlier() const {
  const auto empty = [](const BlockExtent& block) { return block.size_bytes == 0; };
  return call_.gather && call_.data_bytes > 0 &&
         std::none_of(extents_.begin(), extents_.end(), empty);
}

bool MulticastOperation::prepare(CommunicatorContext& context) {
  call_.context = &context;
  build_layout(context);
  for (const Block& block : call_.layout.blocks())
    stored_bytes_ += UnexpectedChunks::charge_of(block.size_bytes, call_.layout.chunk_bytes());
  const std::uint32_t forced = context.settings().chains;
  call_.chains = forced == 0 ? 1 : forced;
  call_.lossless = context.endpoint().capabilities().has(device::Capability::every_chunk_arrives);
  call_.retains_copy =
      !call_.lossless && !call_.gather && context.retention().covers(call_.data_bytes);
  if (!call_.gather || call_.data_bytes == 0 || context.size() < 2) return false;
  if (call_.lossless && forced == 0) {
    // On a device on which every chunk arrives, all ranks send at the same time, which is faster
    // than taking turns: the ranks share no link, and a full shared-memory ring blocks its sender
    // instead of losing data.
    call_.chains = context.size();
    return false;
  }
  const Settings& settings = context.settings();
  const std::uint64_t window_chunks = settings.window_bytes / settings.chunk_bytes;
  const std::uint32_t most_chains =
      protocol::CreditBatches::most_chains(context.size(), window_chunks);
  call_.plan = context.network().send_schedule().next(call_.data_bytes);
  if (forced != 0) {
    call_.chains = std::min(forced, most_chains);
    call_.plan = {};
    return false;
  }
  // Blocks of several chunks that exceed the receive windows need credits. Ranks without a pace
  // then take turns: their chunks form a single stream, which gets the whole credit window.
  const auto long_block = [](const Block& block) { return block.psns.size() > 1; };
  if (call_.plan.at_once && call_.plan.bytes_per_second == 0 &&
      call_.layout.chunk_count() > window_chunks &&
      std::any_of(call_.layout.blocks().begin(), call_.layout.blocks().end(), long_block))
    call_.plan = {};
  if (call_.plan.at_once) call_.chains = most_chains;
  return context.network().send_schedule().votes(call_.data_bytes);
}

void MulticastOperation::build_layout(CommunicatorContext& context) {
  const std::uint64_t window = context.settings().window_bytes;
  const std::uint32_t subgroups = context.endpoint().subgroup_count();
  std::uint64_t block_bytes = call_.gather ? call_.own.size() : call_.buffer.size();
  for (const BlockExtent& place : extents_) block_bytes = std::max(block_bytes, place.size_bytes);
  const std::uint64_t pulse =
      std::max<std::uint64_t>(window / context.settings().pulses_in_flight, 1);
  call_.layout = protocol::BlockLayout(context.settings().chunk_bytes, subgroups,
                                       std::min(block_bytes, pulse));
  // BlockLayout::add cannot fail, because CallPlanner refuses a call with more chunks than PSNs.
  if (!call_.gather) {
    (void)call_.layout.add(description().root, 0, call_.buffer.size());
    if (description().root == context.rank()) call_.own_block = 0;
    return;
  }
  for (std::uint32_t r = 0; r < context.size(); ++r) {
    const BlockExtent place =
        extents_.empty() ? BlockExtent{r * call_.own.size(), call_.own.size()} : extents_[r];
    (void)call_.layout.add(rank_of(r), place.offset_bytes, place.size_bytes);
  }
  call_.own_block = index(context.rank());
}

void MulticastOperation::start(Instant now, bool barrier) {
  call_.epoch = epoch();
  call_.priority = priority();
  if (call_.layout.chunk_count() == 0) {  // there is no data to move, so the operation is complete
    call_.map = std::make_unique<protocol::ChunkMap>(call_.layout);
    return;
  }
  const Rank me = context().rank();
  const std::uint32_t size = context().size();
  const Settings& settings = context().settings();
  if (call_.retains_copy) context().retention().begin(call_.epoch);
  call_.map = std::make_unique<protocol::ChunkMap>(call_.layout);
  const auto senders = static_cast<std::uint32_t>(call_.layout.blocks().size());
  call_.sequencer = std::make_unique<protocol::Sequencer>(senders, call_.chains);
  call_.cutoff = std::make_unique<protocol::Cutoff>(settings.cutoff, context().network().jitter());
  call_.fetch = std::make_unique<protocol::FetchRing>(
      me, size, call_.epoch, *call_.map, settings.fetch,
      call_.retains_copy ? protocol::FetchFrom::root : protocol::FetchFrom::neighbours);
  handshake_ = std::make_unique<protocol::Handshake>(
      call_.retains_copy || call_.lossless ? protocol::Handshake::unneeded(me, call_.epoch)
                                           : protocol::Handshake(me, size, call_.epoch));
  recovery_.start();
  receiver_.start();
  call_.trace.start(context().trace(), call_.epoch, call_.layout);
  sender_.start();
  completion()->chunks_total = call_.layout.chunk_count();
  if (barrier) context().recorder().enter(call_.epoch, observe::Phase::ready, now);
  if (size == 1) {
    become_ready(now);
    return;
  }
  if (barrier) {
    barrier_ =
        std::make_unique<protocol::ReadyBarrier>(me, size, call_.epoch, context().network().vote());
    for (const Rank rank : barrier_->awaited()) context().peers().watch(rank);
    barrier_->start(call_.outbox);
    ++context().counters().ready_by_barrier;
  } else {
    ++context().counters().ready_by_credit;
    become_ready(now);
  }
  flush(now);
}

void MulticastOperation::become_ready(Instant now) {
  call_.ready = call_.dirty = true;
  call_.arrivals.since = call_.arrivals.last = now;
  const std::uint64_t bytes = call_.data_bytes;
  sender_.become_ready(now);
  call_.cutoff->arm(now, Nanoseconds(static_cast<std::int64_t>(
                             static_cast<double>(bytes) * 1e9 /
                             static_cast<double>(context().network().bytes_per_second()))));
  recovery_.become_ready(now);
  context().counters().ready_phase_ns += static_cast<std::uint64_t>((now - started()).count());
  context().recorder().enter(call_.epoch, observe::Phase::data, now);
}

// ---- messages

void MulticastOperation::on_message(Instant now, Rank from, const Message& message) {
  if (!call_.fetch) return Operation::on_message(now, from, message);
  bool legal = true;
  switch (message.kind) {
    case MessageKind::barrier:
      if (!barrier_) return Operation::on_message(now, from, message);
      legal = barrier_->on_message(from, message.argument, call_.outbox);
      if (legal && barrier_->done() && !call_.ready) {
        context().network().send_schedule().adopt(barrier_->vote());
        context().network().vote().lossy = false;
        context().network().vote().rate_kib = protocol::RateVote::kNoRate;
        become_ready(now);
      }
      break;
    case MessageKind::activate:
      legal = sender_.on_activation(from);
      break;
    case MessageKind::fetch_request:
      if (call_.lossless) {
        legal = false;
      } else if (call_.retains_copy) {
        legal = sender_.has_block();
        if (legal) context().retention().answer(now, from, message);
      } else {
        legal = call_.fetch->on_request(from, message, keys(), call_.outbox);
      }
      break;
    case MessageKind::fetch_ready:
      // Stores the answer until the multicast chunks that arrived before the answer have been
      // handled: a chunk that has arrived needs no READ.
      recovery_.add_answer(now, from, message);
      break;
    case MessageKind::fetch_pending:
    case MessageKind::fetch_lost:
    case MessageKind::fetch_expired:
      legal = recovery_.on_refusal(now, from, message);
      break;
    case MessageKind::retransmit_request:
      legal = on_retransmit_request(now, message);
      break;
    case MessageKind::final:
      legal = handshake_->on_final(from);
      if (legal && !call_.received_all())
        recovery_.cut_off(now, protocol::CutoffReason::neighbour_finished);
      break;
    case MessageKind::credit:
      legal = sender_.credits().on_credit(from, message.argument, call_.outbox);
      break;
    case MessageKind::grant:
      legal = sender_.credits().on_grant(from, message.argument);
      if (legal) ++context().counters().credits_granted;
      break;
    default:
      legal = false;
  }
  if (!legal) ++context().counters().messages_rejected;
  flush(now);
}

bool MulticastOperation::on_retransmit_request(Instant now, const Message& message) {
  std::vector<Range> ranges;
  const bool legal =
      sender_.has_block() && call_.fetch->on_retransmit_request(now, message, ranges);
  for (const Range range : ranges) sender_.again(range);
  return legal;
}

// ---- chunks

void MulticastOperation::on_chunk(Instant now, const device::ReceivedChunk& chunk,
                                  device::MulticastQueuePair& queue_pair) {
  receiver_.on_chunk(now, chunk, queue_pair);
}

device::Placement MulticastOperation::landing(const device::MessageHead& chunk, bool begins) {
  return receiver_.landing(chunk, begins);
}

void MulticastOperation::on_unexpected_chunk(Instant now, std::uint32_t psn, Rank source,
                                             std::span<const std::byte> payload) {
  receiver_.on_unexpected_chunk(now, psn, source, payload);
}

ReceiveView MulticastOperation::receive_view() {
  if (!call_.fetch) return {.epoch = epoch()};
  return {.epoch = epoch(),
          .layout = &call_.layout,
          .map = call_.map.get(),
          .read_locked = &recovery_.gate().read_locked(),
          .buffer = call_.buffer.data()};
}

void MulticastOperation::on_arrivals(Instant now, const std::vector<Arrival>& arrivals) {
  receiver_.on_arrivals(now, arrivals);
}

void MulticastOperation::on_completion(Instant now, const device::Completion& completion) {
  if (const auto block = recovery_.on_completion(completion)) receiver_.on_marked(now, *block);
}

/// At the root, retains the block; at a receiver, schedules the delivery ACK for the block.
void MulticastOperation::leave_copy(Instant now) {
  if (sender_.has_block()) {
    context().retention().keep(now, call_.epoch, call_.own);
  } else {
    context().retention().schedule_ack(now, description().root, call_.epoch);
  }
}

// ---- polling

bool MulticastOperation::poll(Instant now) {
  if (!call_.fetch) return false;
  polled_at_ = now;
  recovery_.order_reads(now);
  bool worked = sender_.poll(now);
  recovery_.poll(now);
  if (!handshake_->heard()) sender_.probe_tail(now);
  if (call_.dirty) {
    call_.dirty = false;
    completion()->chunks_present.store(call_.map->marked(), std::memory_order_relaxed);
    if (call_.fetch->has_deferred()) call_.fetch->serve_deferred(keys(), call_.outbox);
    sender_.credits().consume(*call_.fetch, call_.outbox);
    if (locally_complete() && !handshake_->told()) {
      call_.trace.collected_all();
      context().counters().data_phase_ns +=
          static_cast<std::uint64_t>((now - call_.arrivals.since).count());
      context().network().observe_rate(call_.data_bytes, now - call_.arrivals.since);
      context().recorder().enter(call_.epoch, observe::Phase::handshake, now);
      if (call_.gather) receiver_.cast_vote(now, sender_.queue_filled(), barrier_ != nullptr);
      if (call_.retains_copy) leave_copy(now);
      handshake_->finish(call_.outbox);
    }
  }
  if (!call_.fetch->idle()) call_.fetch->poll(now, call_.outbox);
  recovery_.check_served();
  if (context().closing().any_closed()) check_closed();
  worked |= !call_.outbox.empty();
  flush(now);
  if (ReceiveTeam* team = context().receiver().team();
      team != nullptr && team->epoch() == call_.epoch) {
    team->set_eager(sender_.credits().needed() || call_.fetch->has_deferred() ||
                    recovery_.gate().locked_answers() > 0);
  }
  return worked;
}

/// Fails the communicator if a rank has closed whose message this collective still needs.
void MulticastOperation::check_closed() {
  const CloseProtocol& closing = context().closing();
  Rank absent = barrier_ ? closing.first_closed(barrier_->awaited()) : kNoRank;
  if (absent == kNoRank && closing.has_closed(handshake_->awaited()))
    absent = handshake_->awaited();
  if (absent != kNoRank) context().failures().fail_without(absent);
}

void MulticastOperation::flush(Instant now) {
  if (!call_.outbox.empty()) context().messages().send(now, call_.outbox, priority());
}

Instant MulticastOperation::next_deadline() const {
  if (!call_.fetch) return kNever;
  Instant deadline = std::min(
      {call_.fetch->next_deadline(), recovery_.next_deadline(), sender_.next_deadline(polled_at_)});
  if (!handshake_->heard()) deadline = std::min(deadline, sender_.next_tail_probe());
  if (settled()) deadline = std::min(deadline, polled_at_ + kQueueRetryMin);
  return deadline;
}

bool MulticastOperation::locally_complete() const {
  // A receiver that has every chunk still completes the ready barrier, because other ranks may need
  // its barrier messages.
  return !call_.fetch || (call_.ready && sender_.sent_all() && call_.received_all());
}

bool MulticastOperation::done() const {
  if (!call_.fetch) return true;
  // A device may read the buffer until the last chunk, retransmissions included, has left.
  return settled() && !sender_.reads_posted();
}

bool MulticastOperation::settled() const {
  return locally_complete() && handshake_->done() && recovery_.open_reads() == 0 &&
         !sender_.has_again();
}

void MulticastOperation::finish() {
  if (!call_.fetch) return;
  fold_counters();
  context().recorder().progress(call_.epoch, call_.map->marked(), call_.layout.chunk_count());
  recovery_.release_keys();
  try {
    recovery_.judge_sources(polled_at_);
  } catch (const std::bad_alloc&) {
    // The exception is ignored, because this collective has ended and must still report its
    // completion. A later collective checks again which ranks' multicast arrives here.
  }
}

protocol::FetchRing::KeyOf MulticastOperation::keys() {
  return [this](std::uint32_t block_index) { return recovery_.key_of(block_index); };
}

void MulticastOperation::fold_counters() {
  observe::Counters& sum = context().counters();
  const protocol::FetchCounters& fetch = call_.fetch->counters();
  context().network().observe_loss(fetch.chunks_lost + fetch.ranges_served > 0);
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
  if (!call_.ready) return observe::Phase::ready;
  return locally_complete() ? observe::Phase::handshake : observe::Phase::data;
}

Missing MulticastOperation::missing() const {
  constexpr int kMaxRuns = 6;
  if (!call_.fetch) return {};
  Missing all;
  int runs = 0;
  bool more = false;
  for (std::uint32_t b = 0; b < call_.layout.blocks().size(); ++b) {
    const Block& block = call_.layout.blocks()[b];
    Range missing = call_.map->first_missing(b, block.psns);
    if (!missing.empty()) all.ranks.insert(block.root);
    for (; !missing.empty() && runs < kMaxRuns; ++runs) {
      all.text += fmt::format("{}rank {}'s chunks {}-{} of {}", all.text.empty() ? "" : ", ",
                              index(block.root), missing.first - block.psns.first,
                              missing.last - 1 - block.psns.first, block.psns.size());
      missing = call_.map->first_missing(b, {missing.last, block.psns.last});
    }
    more = more || !missing.empty();
  }
  if (more) all.text += ", ...";
  return all;
}

}  // namespace tutti::engine
