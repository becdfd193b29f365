#include "engine/multicast/multicast_recovery.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace tutti::engine {

namespace {

constexpr double kScansPerCollective = 3;
constexpr std::int64_t kMaxTickFactor = 8;
// After this many silence timeouts without any chunk of a retained block, this rank requests the
// block from its root. Until then the root is probably just late, and a request would disturb its
// computation.
constexpr std::uint32_t kPatientSilences = 5;

}  // namespace

using protocol::Block;
using protocol::LostRun;
using protocol::ReadOrder;

void MulticastRecovery::start() {
  scanner_ = std::make_unique<protocol::LossScanner>(*call_.map);
  gate_.start();
}

Instant MulticastRecovery::next_deadline() const {
  return call_.may_miss_chunks() ? std::min({next_tick_, call_.cutoff->deadline(), read_at_})
                                 : kNever;
}

void MulticastRecovery::block_ended(std::uint32_t block_index) {
  if (call_.has_workers()) {
    gate_.sender_done(block_index);
  } else {
    scanner_->ended(block_index);
  }
}

void MulticastRecovery::hasten(Instant now) {
  next_tick_ = now + context().settings().reorder_delay;
}

void MulticastRecovery::tick(Instant now) {
  if (!call_.may_miss_chunks() || now < next_tick_) return;
  if (call_.has_workers()) {
    gate_.judge_ends(*scanner_);
  } else if (right_neighbour_done_ && context().receiver().drained()) {
    for (std::uint32_t b = 0; b < call_.layout.blocks().size(); ++b) scanner_->ended(b);
  }
  next_tick_ = now + tick_interval();
  scanner_->tick(lost_);
  // If the last chunk of every block has arrived, all missing chunks are lost, because `hasten`
  // delayed this scan until reordering is ruled out. The scanner reports a missing chunk only at a
  // second scan, so the second scan follows at once.
  if (call_.arrivals.ends_seen >= call_.arrivals.ends_expected) scanner_->tick(lost_);
  declare(now);
}

// While chunks still arrive, losses are collected and requested only a few times: each request
// costs messages, and only the last request can delay the end of the collective.
Nanoseconds MulticastRecovery::tick_interval() const {
  const Nanoseconds floor = context().settings().reorder_delay;
  if (right_neighbour_done_) return floor;
  const double seconds = static_cast<double>(call_.data_bytes) /
                         static_cast<double>(context().network().bytes_per_second());
  const Nanoseconds share(static_cast<std::int64_t>(seconds * 1e9 / kScansPerCollective));
  return std::clamp(share, floor, floor * kMaxTickFactor);
}

void MulticastRecovery::declare(Instant now) {
  if (lost_.empty()) return;
  for (const LostRun& run : lost_) {
    if (run.proven || call_.arrivals.first_chunk_seen[run.block_index]) {
      call_.fetch->lost(run);
    } else {
      call_.fetch->enquire(run);
    }
  }
  lost_.clear();
  if (call_.retains_copy) context().peers().watch(call_.layout.blocks().front().root);
  call_.dirty = true;
  call_.fetch->poll(now, call_.outbox);
}

void MulticastRecovery::check_cutoff(Instant now) {
  if (!call_.may_miss_chunks() || gate_.unread(now)) return;
  cut_off(now, protocol::CutoffReason::silence);
}

/// True if this rank should now request the blocks of which nothing has arrived, although their
/// senders may just be late. A retained block is requested after kPatientSilences silence timeouts,
/// or after one if the network is lossy. For any other block, a tail probe normally shows that it
/// was sent, so it is requested only if multicast seems to be lost or nothing has arrived for
/// `enquiry_patience`.
bool MulticastRecovery::enquires(Instant now) {
  if (call_.retains_copy)
    return ++silences_ >= (context().network().lossy() ? 1 : kPatientSilences);
  return context().receiver().membership().lost() ||
         now - call_.arrivals.last >= context().settings().enquiry_patience;
}

void MulticastRecovery::cut_off(Instant now, protocol::CutoffReason reason) {
  observe::Counters& counters = context().counters();
  if (reason == protocol::CutoffReason::neighbour_finished) {
    ++counters.cutoff_neighbour_finished;
    call_.trace.cut_off(reason);
    right_neighbour_done_ = true;
    next_tick_ = std::min(next_tick_, now + context().settings().reorder_delay);
    if (!call_.has_workers()) return;
    for (std::uint32_t b = 0; b < call_.layout.blocks().size(); ++b) gate_.sender_done(b);
    gate_.judge_ends(*scanner_);
    return;
  }
  const bool asks_for_all = enquires(now);
  bool any = false;
  for (std::uint32_t b = 0; b < call_.layout.blocks().size(); ++b) {
    if (!call_.arrivals.first_chunk_seen[b] && !asks_for_all) continue;
    Range rest = call_.layout.blocks()[b].psns;
    while (!rest.empty()) {
      const Range missing = call_.map->first_missing(b, rest);
      if (missing.empty()) break;
      rest.first = missing.last;
      lost_.push_back({b, missing, false});
      any = true;
    }
  }
  if (any) {
    ++counters.cutoff_silence;
    call_.trace.cut_off(reason);
  }
  declare(now);
}

/// Fails the communicator, because `by` no longer has the chunks although it must serve every
/// request.
void MulticastRecovery::fail_unserved(Rank by) {
  context().failures().fail(context().failures().misfit(
      by, Code::peer_failed,
      "{} no longer retains the chunks that this rank lacks: call the same collectives in the same "
      "order, with the same sizes, on all ranks",
      context().names().of(by)));
}

void MulticastRecovery::check_served() {
  if (call_.fetch->unserved_by() != kNoRank) return fail_unserved(call_.fetch->unserved_by());
  const CloseProtocol& closing = context().closing();
  if (!closing.any_closed()) return;
  if (!call_.fetch->idle() && closing.has_closed(call_.fetch->first_target(0)))
    return fail_unserved(call_.fetch->first_target(0));
  if (!call_.lossless || call_.received_all() || !context().receiver().drained()) return;
  // On a lossless device, a root's chunks arrive before the message that the root closes.
  for (std::uint32_t b = 0; b < call_.layout.blocks().size(); ++b) {
    const Block& block = call_.layout.blocks()[b];
    if (closing.has_closed(block.root) && !call_.map->first_missing(b, block.psns).empty())
      return fail_unserved(block.root);
  }
}

void MulticastRecovery::judge_sources(Instant now) {
  GroupMembership& membership = context().receiver().membership();
  if ((fetched_.empty() && !membership.suspects()) || !call_.received_all()) return;
  fetched_.resize(call_.layout.blocks().size());
  for (std::uint32_t b = 0; b < call_.layout.blocks().size(); ++b) {
    const Block& block = call_.layout.blocks()[b];
    if (b == call_.own_block || block.psns.empty()) continue;
    if (fetched_[b] < block.psns.size()) {
      membership.heard(block.root);
    } else {
      membership.missed(block.root, block.psns.size());
    }
  }
  membership.judge(now);
}

std::uint64_t MulticastRecovery::key_of(std::uint32_t block_index) {
  const std::size_t at = call_.own_offsets ? block_index : 0;
  if (keys_.empty()) keys_.resize(call_.own_offsets ? call_.layout.blocks().size() : 1);
  if (!keys_[at]) {
    const Block& block = call_.layout.blocks()[block_index];
    const auto memory = call_.own_offsets
                            ? call_.buffer.subspan(block.offset_bytes, block.size_bytes)
                            : call_.buffer;
    if (auto key = context().endpoint().register_memory(memory)) keys_[at] = *key;
  }
  return keys_[at].value_or(device::MemoryKey{}).key;
}

void MulticastRecovery::release_keys() {
  for (const auto& key : keys_) {
    if (key) context().endpoint().deregister_memory(*key);
  }
  keys_.clear();
}

/// True if an answer offers chunks that this rank requested by `FetchRing::enquire`, before it knew
/// that they were sent. Their root may just be late, and their multicast may still be under way.
bool MulticastRecovery::answers_enquiry(const protocol::Message& message) const {
  if (call_.retains_copy || context().receiver().membership().lost()) return false;
  const auto ranges = message.range_list();
  return std::any_of(ranges.begin(), ranges.end(), [this](const Range& range) {
    return range.first < call_.layout.chunk_count() && call_.fetch->enquired(range.first);
  });
}

void MulticastRecovery::add_answer(Instant now, Rank from, const protocol::Message& message) {
  answers_.push_back({from, message});
  // Only the first answer starts the wait before the READs. Answers to repeated requests may come
  // at shorter intervals than this wait, and would prolong it forever.
  if (read_at_ == kNever && answers_enquiry(message))
    read_at_ = now + context().settings().reorder_delay;
}

void MulticastRecovery::order_reads(Instant now) {
  if (read_at_ != kNever && now < read_at_) return;
  read_at_ = kNever;
  if (answers_.empty() || !gate_.lock(answers_)) return;
  const auto end = answers_.begin() + static_cast<std::ptrdiff_t>(gate_.locked_answers());
  for (auto answer = answers_.begin(); answer != end; ++answer) {
    const bool legal =
        call_.fetch->on_answer(now, answer->from, answer->message, call_.outbox, orders_);
    if (!legal) ++context().counters().messages_rejected;
  }
  // Chunks are unlocked only after all answers are handled, because the ranges of answers may
  // overlap.
  for (auto answer = answers_.begin(); answer != end; ++answer) {
    for (const Range range : answer->message.range_list()) gate_.unlock(range);
  }
  answers_.erase(answers_.begin(), end);
  gate_.forget_answers();
  for (const ReadOrder& order : orders_) post_read(now, order);
  orders_.clear();
}

void MulticastRecovery::post_read(Instant now, const ReadOrder& order) {
  std::uint32_t slot = 0;
  while (slot < reads_.size() && reads_[slot].open) ++slot;
  if (slot == reads_.size()) reads_.emplace_back();
  const Block& block = call_.layout.blocks()[order.block_index];
  const std::uint64_t offset = call_.layout.offset_of(block, order.psns.first);
  const std::uint64_t bytes = call_.layout.bytes_of(block, order.psns);
  const std::uint64_t remote_begin = call_.own_offsets ? block.offset_bytes : 0;
  const Status posted =
      context().endpoint().post(now, {.opcode = device::Opcode::read,
                                      .peer = order.from,
                                      .work_id = std::uint64_t{call_.epoch} << 32 | slot,
                                      .local = call_.buffer.subspan(offset, bytes),
                                      .remote_key = {order.key},
                                      .remote_offset = offset - remote_begin,
                                      .priority = call_.priority});
  if (!posted.ok()) {
    call_.fetch->on_read_end(order, false, 0);
    gate_.unlock(order.psns);
    return;
  }
  reads_[slot] = {order, true};
  call_.trace.reading(slot);
  ++open_reads_;
}

std::optional<std::uint32_t> MulticastRecovery::on_completion(
    const device::Completion& completion) {
  const auto slot = static_cast<std::uint32_t>(completion.work_id);
  if (completion.opcode != device::Opcode::read || slot >= reads_.size() || !reads_[slot].open)
    return std::nullopt;
  Read& read = reads_[slot];
  read.open = false;
  --open_reads_;
  const bool success = completion.code == Code::ok;
  std::uint64_t bytes = 0;
  if (success) {
    const Block& block = call_.layout.blocks()[read.order.block_index];
    bytes = call_.layout.bytes_of(block, read.order.psns);
    call_.map->mark_run(read.order.block_index, read.order.psns);
    fetched_.resize(call_.layout.blocks().size());
    fetched_[read.order.block_index] += read.order.psns.size();
  }
  call_.trace.read(slot, read.order, bytes);
  call_.fetch->on_read_end(read.order, success, bytes);
  if (!success) gate_.unlock(read.order.psns);
  if (!success && call_.retains_copy) fail_unserved(read.order.from);
  if (!success) return std::nullopt;
  return read.order.block_index;
}

}  // namespace tutti::engine
