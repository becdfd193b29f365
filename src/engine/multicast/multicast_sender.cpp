#include "engine/multicast/multicast_sender.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace tutti::engine {

namespace {

// Bytes that a late paced sender may send at once to catch up.
constexpr std::uint64_t kCatchUpBytes = 128 * 1024;
// Bytes that all paced senders together may put into a switch's queue at the start.
constexpr std::uint64_t kPacedBurstBytes = 448 * 1024;
// The paced senders together exceed the measured link rate by 1 / kExcessDivisor, so that the link
// stays busy even if one host is late or the estimate is too low. They send at most kExcessBytes
// too much, and a switch's queue absorbs this excess.
constexpr std::uint64_t kExcessDivisor = 8;
constexpr std::uint64_t kExcessBytes = 256 * 1024;
constexpr std::uint32_t kLongBlock = 64;  // a block of at least this many chunks is long

}  // namespace

using protocol::Block;
using protocol::MessageKind;

void MulticastSender::start() {
  const Settings& settings = context().settings();
  credits_ = std::make_unique<protocol::CreditWindow>(
      context().rank(), context().size(), call_.epoch, *call_.map, call_.chains,
      context().settings().window_bytes / call_.layout.chunk_bytes(), settings.pulses_in_flight);
  if (call_.own_block == kNoBlock) return;
  const Block& block = call_.layout.blocks()[call_.own_block];
  call_.map->mark_run(call_.own_block, block.psns);
  call_.dirty = true;
  if (context().size() == 1) {
    place_own_up_to(block.psns.last);
    return;
  }
  // A rank with an empty block takes a turn, too, because it has to activate its successor.
  sent_all_ = false;
  call_.fetch->withhold(block.psns);
  block_ =
      std::make_unique<BlockSender>(call_.layout, call_.own_block, call_.own, call_.epoch,
                                    call_.priority, context().endpoint(), context().counters());
  activated_ = call_.sequencer->first(rank_of(call_.own_block));
}

void MulticastSender::become_ready(Instant now) {
  if (call_.plan.bytes_per_second == 0) return;
  // A rank that sends receives from all others; a chain has one sender at a time.
  const std::uint64_t senders = std::min(context().size() - 1, call_.sequencer->chains());
  const std::uint64_t share = (call_.plan.bytes_per_second + excess_rate()) / senders;
  block_->set_pace(protocol::Pace(now, share, kCatchUpBytes), kPacedBurstBytes / senders);
}

bool MulticastSender::on_activation(Rank from) {
  if (call_.own_block == kNoBlock || from != call_.sequencer->predecessor(context().rank()))
    return false;
  activated_ = true;
  return true;
}

std::uint64_t MulticastSender::excess_rate() const {
  return std::min(call_.plan.bytes_per_second / kExcessDivisor,
                  call_.plan.bytes_per_second * kExcessBytes / call_.data_bytes);
}

bool MulticastSender::poll(Instant now) {
  if (!block_) return false;
  block_->begin_round();
  bool worked = block_->has_again() && block_->send_again();
  if (call_.ready && activated_ && !sent_all_) worked |= send_block(now);
  if (!block_->status().ok()) context().failures().fail(block_->status());
  return worked;
}

bool MulticastSender::send_block(Instant now) {
  const std::uint32_t end = call_.layout.blocks()[call_.own_block].psns.last;
  const std::uint32_t limit = credits_->limit(call_.own_block);
  call_.trace.sending();
  const bool worked = block_->send(now, limit);
  const std::uint32_t lowest = block_->lowest_unsent();
  place_own_up_to(lowest);
  call_.fetch->withhold({lowest, end});
  note_stall(now, lowest < end && lowest >= limit, worked);
  if (call_.lossless && block_->blocked()) watch_readers();
  if (lowest >= end) finish_sending(now);
  return worked;
}

/// Copies the sent part of this rank's block to the block's position in the receive buffer, from
/// which neighbours READ. Copying after sending does not delay the sending, and finds the data in
/// the cache.
void MulticastSender::place_own_up_to(std::uint32_t psn) {
  const Block& block = call_.layout.blocks()[call_.own_block];
  std::byte* const place = call_.buffer.data() + block.offset_bytes;
  const std::uint64_t end = std::min<std::uint64_t>(
      call_.layout.offset_of(block, psn) - block.offset_bytes, call_.own.size());
  if (place != call_.own.data() && end > own_placed_bytes_)
    std::memcpy(place + own_placed_bytes_, &call_.own[own_placed_bytes_], end - own_placed_bytes_);
  own_placed_bytes_ = end;
}

/// Watches all receivers: a full shared-memory ring shows that a receiver does not read. Without a
/// handshake no other rank waits for that receiver, so only this sender can notice that the
/// receiver died.
void MulticastSender::watch_readers() {
  if (std::exchange(readers_watched_, true)) return;
  context().peers().watch_all();
}

void MulticastSender::note_stall(Instant now, bool stalled, bool worked) {
  observe::Counters& counters = context().counters();
  if (stalled && stalled_since_ == Instant{}) {
    stalled_since_ = now;
    ++counters.credit_stalls;
    repeat_after_ = call_.cutoff->silence_timeout();
    next_repeat_ = now + repeat_after_;
  } else if (worked && stalled_since_ != Instant{}) {
    counters.credit_stall_ns += static_cast<std::uint64_t>((now - stalled_since_).count());
    stalled_since_ = {};
    next_repeat_ = kNever;
  }
}

std::uint64_t MulticastSender::activation_threshold_bytes() const {
  const double lead = static_cast<double>(context().settings().activation_lead.count()) / 1e9;
  return static_cast<std::uint64_t>(lead *
                                    static_cast<double>(context().network().bytes_per_second()));
}

void MulticastSender::finish_sending(Instant now) {
  const std::uint64_t unsent = block_->unsent_bytes();
  // The successor is activated while a little data is still queued in this host, so that the link
  // is busy while the activation travels. An earlier activation would lengthen the switch's queue
  // in every turn.
  const std::uint64_t threshold = activation_threshold_bytes();
  if (unsent > threshold) {
    const double seconds = static_cast<double>(unsent - threshold) /
                           static_cast<double>(context().network().bytes_per_second());
    block_->drain(std::max(kQueueRetryMin, Nanoseconds(static_cast<std::int64_t>(seconds * 1e9))));
    return;
  }
  if (!successor_activated_) {
    successor_activated_ = true;
    const Rank next = call_.sequencer->successor(rank_of(call_.own_block));
    if (next != kNoRank) {
      call_.outbox.send(next, MessageKind::activate, call_.epoch);
      ++context().counters().activations;
    }
  }
  call_.trace.sent(call_.own_block);
  sent_all_ = call_.dirty = true;
  if (call_.lossless) return;
  if (call_.retains_copy) {
    // A retained block has no handshake, so a receiver that lost the last chunk notices the loss
    // only at its cutoff. On a lossy network a tail probe avoids that wait.
    if (context().network().lossy()) block_->send_tail_probe();
    return;
  }
  repeat_after_ = call_.cutoff->silence_timeout();
  // On a lossy network the last chunk of a long block is sent twice, because its loss would delay
  // the collective until the cutoff, and a duplicate costs little.
  const bool twice = context().network().lossy() &&
                     call_.layout.blocks()[call_.own_block].psns.size() >= kLongBlock;
  next_repeat_ = twice ? now : now + repeat_after_;
}

void MulticastSender::probe_tail(Instant now) {
  if (now < next_repeat_ || !block_) return;
  // While blocks of other ranks still arrive, no rank can finish, so a lost tail of this rank's
  // block delays no rank yet. The probe waits until nothing has arrived for a silence timeout, and
  // is unnecessary if the right neighbour's handshake message comes first.
  if (sent_all_ && !context().network().lossy()) {
    const Instant quiet = call_.cutoff->last_progress() + call_.cutoff->silence_timeout();
    if (now < quiet) {
      next_repeat_ = quiet;
      return;
    }
  }
  repeat_after_ = std::min(repeat_after_ * 2, Nanoseconds(100'000'000));
  // Each rank uses a different interval. With equal intervals the probes of all ranks would arrive
  // together and might exceed the posted receives, so that the same probes would be lost every
  // time.
  const std::uint32_t size = context().size();
  next_repeat_ = now + repeat_after_ * (size + index(context().rank())) / size;
  block_->send_tail_probe();
}

Instant MulticastSender::next_deadline(Instant polled_at) const {
  if (!block_) return kNever;
  // A full send queue is polled again soon, because no event reports that it has room.
  if (const auto retry = block_->retry_after()) return polled_at + *retry;
  if (block_->has_again()) return polled_at;
  // A sender without credit has no deadline: only a message of another rank lets it send.
  const bool may_send = call_.ready && activated_ && !sent_all_ &&
                        block_->lowest_unsent() < credits_->limit(call_.own_block);
  return may_send ? block_->next_send() : kNever;
}

}  // namespace tutti::engine
