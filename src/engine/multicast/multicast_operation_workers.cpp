// The multicast collective with receive workers: it learns of chunks batch by batch, asks the
// workers before it takes silence for loss, and keeps them from writing chunks that it READs.
#include <algorithm>

#include "engine/core/communicator_context.hpp"
#include "engine/multicast/multicast_operation.hpp"

namespace tutti::engine {

ReceiveView MulticastOperation::receive_view() {
  if (!fetch_) return {.epoch = epoch()};
  return {.epoch = epoch(),
          .layout = &layout_,
          .map = map_.get(),
          .read_locked = &read_locked_,
          .buffer = buffer_.data()};
}

void MulticastOperation::on_arrivals(Instant now, const std::vector<Arrival>& arrivals) {
  if (!fetch_) return;
  dirty_ = true;
  for (const Arrival& arrival : arrivals) {
    if (arrival.epoch != epoch()) continue;
    // Workers read their clocks independently: keep time monotonic.
    const Instant at = std::max(arrival.at, last_arrival_);
    const std::uint32_t b = arrival.block_index;
    if (gather_) meter_->arrived(at, b, arrival.bytes, !first_chunk_seen_[b]);
    on_marked(at, b);
  }
  const auto reached = [&](std::uint32_t b) {
    for (std::uint32_t s = 0; s < layout_.subgroups(); ++s) {
      if (map_->horizon(b, s) > layout_.blocks()[b].psns.first) return true;
    }
    return false;
  };
  std::erase_if(open_blocks_, [&](std::uint32_t b) {
    if (!first_chunk_seen_[b] && reached(b)) on_marked(now, b);
    if (!map_->has(b, layout_.blocks()[b].psns.last - 1)) return false;
    trace_.collected(b);
    on_block_end(now);
    return true;
  });
}

// Missing chunks of a sent block are lost, or another worker's queue still holds them: a block
// counts as ended when all workers have polled since.
void MulticastOperation::judge_ends() {
  if (look_at_end_ && context().looked(*look_at_end_)) {
    for (const std::uint32_t b : pending_done_) scanner_->ended(b);
    pending_done_.clear();
    look_at_end_.reset();
  }
  if (look_at_end_ || sender_done_.empty()) return;
  pending_done_.swap(sender_done_);
  look_at_end_ = context().request_drain();
}

// Whether silence must not be judged yet: it has not lasted long enough, or a queue is unread.
bool MulticastOperation::unread(Instant now) {
  if (context().team() == nullptr) return !context().drained() || !cutoff_->expired(now);
  if (!look_at_cutoff_) {
    if (!cutoff_->expired(now)) return true;
    look_at_cutoff_ = context().request_drain();
    cutoff_at_ = last_arrival_;
  }
  if (!context().looked(*look_at_cutoff_)) return true;
  look_at_cutoff_.reset();
  return last_arrival_ != cutoff_at_;
}

// Whether no worker can still place chunks that the answers offer for READ. This does not wait
// unless a worker is in the middle of a batch, whose end then wakes the owner.
bool MulticastOperation::workers_keep_off() {
  ReceiveTeam* team = context().team();
  if (team == nullptr) {
    answers_read_locked_ = ready_answers_.size();
    return true;
  }
  // Chunks that have arrived by now are not READ.
  if (!look_at_answers_) look_at_answers_ = team->request_drain();
  if (!team->polled_once(*look_at_answers_)) return false;
  if (answers_read_locked_ == 0) {
    for (const Answer& answer : ready_answers_) {
      for (const Range range : answer.message.range_list()) {
        const std::uint32_t end = std::min(range.last, layout_.chunk_count());
        for (std::uint32_t psn = range.first; psn < end; ++psn) read_locked_.set_atomic(psn);
      }
    }
    answers_read_locked_ = ready_answers_.size();
    team->set_eager(true);
    grace_ = team->grace();
  }
  if (!team->passed(grace_)) return false;
  look_at_answers_.reset();
  return true;
}

/// Unlocks chunks that are not being READ.
void MulticastOperation::let_workers_on(Range psns) {
  if (context().team() == nullptr) return;
  const std::uint32_t end = std::min(psns.last, layout_.chunk_count());
  for (std::uint32_t psn = psns.first; psn < end; ++psn) {
    if (!fetch_->reading(psn)) read_locked_.clear_atomic(psn);
  }
  answers_read_locked_ = 0;  // answers that wait for their grace period lock their chunks again
}

}  // namespace tutti::engine
