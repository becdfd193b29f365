// The slow path of a multicast collective: which chunks are lost, when to stop waiting for them,
// and the READs that fetch them.
#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "engine/core/communicator_context.hpp"
#include "engine/multicast/multicast_operation.hpp"

namespace tutti::engine {

namespace {

constexpr double kScansPerCollective = 3;
constexpr std::int64_t kMaxTickFactor = 8;
// If nothing of a short block has arrived, the root is probably just late. Wait for this many
// silence timeouts before asking it, so as not to disturb its computation.
constexpr std::uint32_t kPatientSilences = 5;

}  // namespace

using protocol::Block;
using protocol::LostRun;
using protocol::ReadOrder;

void MulticastOperation::tick(Instant now) {
  if (!may_lack() || now < next_tick_) return;
  if (context().team() != nullptr) {
    judge_ends();
  } else if (right_neighbour_done_ && context().drained()) {
    for (std::uint32_t b = 0; b < layout_.blocks().size(); ++b) scanner_->ended(b);
  }
  next_tick_ = now + tick_interval();
  scanner_->tick(lost_);
  // Every block's last chunk arrived a tick ago, so that missing chunks are no longer under way.
  if (ends_seen_ >= ends_expected_) scanner_->tick(lost_);
  declare(now);
}

// While data flows, losses are collected and requested a few times in total: each request costs a
// round of messages, and only the last one can delay the end.
Nanoseconds MulticastOperation::tick_interval() const {
  const Nanoseconds floor = context().settings().reorder_delay;
  if (right_neighbour_done_) return floor;
  const double seconds =
      static_cast<double>(data_bytes_) / static_cast<double>(context().bytes_per_second());
  const Nanoseconds share(static_cast<std::int64_t>(seconds * 1e9 / kScansPerCollective));
  return std::clamp(share, floor, floor * kMaxTickFactor);
}

void MulticastOperation::declare(Instant now) {
  if (lost_.empty()) return;
  for (const LostRun& run : lost_) {
    if (run.proven || first_chunk_seen_[run.block_index]) {
      fetch_->lost(run);
    } else {
      fetch_->enquire(run);
    }
  }
  lost_.clear();
  if (retains_copy_) context().watch(description().root);
  dirty_ = true;
  fetch_->poll(now, outbox_);
}

void MulticastOperation::check_cutoff(Instant now) {
  if (!may_lack() || unread(now)) return;
  cut_off(now, protocol::CutoffReason::silence);
}

void MulticastOperation::cut_off(Instant now, protocol::CutoffReason reason) {
  observe::Counters& counters = context().counters();
  if (reason == protocol::CutoffReason::neighbour_finished) {
    ++counters.cutoff_neighbour_finished;
    trace_.cut_off(reason);
    right_neighbour_done_ = true;
    next_tick_ = std::min(next_tick_, now + context().settings().reorder_delay);
    if (context().team() == nullptr) return;
    for (std::uint32_t b = 0; b < layout_.blocks().size(); ++b) sender_done_.push_back(b);
    judge_ends();
    return;
  }
  // A block of which nothing has arrived may belong to a late rank. Its sender sends tail probes
  // until this rank has the block, or retains a copy and is asked after a while.
  const bool enquires = retains_copy_ && ++silences_ >= (context().lossy() ? 1 : kPatientSilences);
  bool any = false;
  for (std::uint32_t b = 0; b < layout_.blocks().size(); ++b) {
    if (!first_chunk_seen_[b] && !enquires) continue;
    Range rest = layout_.blocks()[b].psns;
    while (!rest.empty()) {
      const Range missing = map_->first_missing(b, rest);
      if (missing.empty()) break;
      rest.first = missing.last;
      lost_.push_back({b, missing, false});
      any = true;
    }
  }
  if (any) {
    ++counters.cutoff_silence;
    trace_.cut_off(reason);
  }
  declare(now);
}

/// Fails because the root, which must serve every request, no longer has the chunks.
void MulticastOperation::fail_unserved(Rank root) {
  context().fail(failure(Code::peer_failed,
                         "{} no longer has the chunks that are missing here: call the same "
                         "collectives in the same order on all ranks",
                         context().name_of(root)));
}

std::uint64_t MulticastOperation::key() {
  if (!registered_) {
    if (auto key = context().endpoint().register_memory(buffer_)) {
      key_ = *key;
      registered_ = true;
    }
  }
  return key_.key;
}

void MulticastOperation::order_reads(Instant now) {
  if (!workers_keep_off()) return;
  const auto end = ready_answers_.begin() + static_cast<std::ptrdiff_t>(answers_read_locked_);
  for (auto answer = ready_answers_.begin(); answer != end; ++answer) {
    const bool legal = fetch_->on_answer(now, answer->from, answer->message, outbox_, orders_);
    if (!legal) ++context().counters().messages_rejected;
  }
  // Unlocked only now, because the answers may overlap.
  for (auto answer = ready_answers_.begin(); answer != end; ++answer) {
    for (const Range range : answer->message.range_list()) let_workers_on(range);
  }
  ready_answers_.erase(ready_answers_.begin(), end);
  answers_read_locked_ = 0;
  for (const ReadOrder& order : orders_) post_read(now, order);
  orders_.clear();
}

void MulticastOperation::post_read(Instant now, const ReadOrder& order) {
  std::uint32_t slot = 0;
  while (slot < reads_.size() && reads_[slot].open) ++slot;
  if (slot == reads_.size()) reads_.emplace_back();
  const Block& block = layout_.blocks()[order.block_index];
  const std::uint64_t offset = layout_.offset_of(block, order.psns.first);
  const std::uint64_t bytes = layout_.bytes_of(block, order.psns);
  const Status posted =
      context().endpoint().post(now, {.opcode = device::Opcode::read,
                                      .peer = order.from,
                                      .work_id = std::uint64_t{epoch()} << 32 | slot,
                                      .local = buffer_.subspan(offset, bytes),
                                      .remote_key = {order.key},
                                      .remote_offset = offset});
  if (!posted.ok()) {
    fetch_->on_read_end(order, false, 0);
    let_workers_on(order.psns);
    return;
  }
  reads_[slot] = {order, true};
  trace_.reading(slot);
  ++open_reads_;
}

void MulticastOperation::on_completion(Instant now, const device::Completion& completion) {
  const auto slot = static_cast<std::uint32_t>(completion.work_id);
  if (completion.opcode != device::Opcode::read || slot >= reads_.size() || !reads_[slot].open)
    return;
  Read& read = reads_[slot];
  read.open = false;
  --open_reads_;
  const bool success = completion.code == Code::ok;
  std::uint64_t bytes = 0;
  if (success) {
    const Block& block = layout_.blocks()[read.order.block_index];
    bytes = layout_.bytes_of(block, read.order.psns);
    map_->mark_run(read.order.block_index, read.order.psns);
    on_marked(now, read.order.block_index);
  }
  trace_.read(slot, read.order, bytes);
  fetch_->on_read_end(read.order, success, bytes);
  if (!success) let_workers_on(read.order.psns);
  if (!success && retains_copy_) fail_unserved(read.order.from);
}

}  // namespace tutti::engine
