#include "engine/multicast/worker_gate.hpp"

#include <algorithm>

namespace tutti::engine {

// Reports a completely sent block only after each worker has found its queues empty, because a
// queue may still hold chunks of the block.
void WorkerGate::judge_ends(protocol::LossScanner& scanner) {
  if (ends_drain_ && call_.context->receiver().looked(*ends_drain_)) {
    for (const std::uint32_t b : pending_done_) scanner.ended(b);
    pending_done_.clear();
    ends_drain_.reset();
  }
  if (ends_drain_ || sender_done_.empty()) return;
  pending_done_.swap(sender_done_);
  ends_drain_ = call_.context->receiver().request_drain();
}

bool WorkerGate::unread(Instant now) {
  if (!call_.has_workers())
    return !call_.context->receiver().drained() || !call_.cutoff->expired(now);
  if (!cutoff_drain_) {
    if (!call_.cutoff->expired(now)) return true;
    cutoff_drain_ = call_.context->receiver().request_drain();
    cutoff_at_ = call_.arrivals.last;
  }
  if (!call_.context->receiver().looked(*cutoff_drain_)) return true;
  cutoff_drain_.reset();
  return call_.arrivals.last != cutoff_at_;
}

bool WorkerGate::lock(const std::vector<FetchAnswer>& answers) {
  ReceiveTeam* team = call_.context->receiver().team();
  if (team == nullptr) {
    locked_answers_ = answers.size();
    return true;
  }
  // The workers poll once before chunks are locked, so that chunks that have already arrived are
  // not READ.
  if (!answers_drain_) answers_drain_ = team->request_drain();
  if (!team->polled_once(*answers_drain_)) return false;
  if (locked_answers_ == 0) {
    for (const FetchAnswer& answer : answers) {
      for (const Range range : answer.message.range_list()) {
        const std::uint32_t end = std::min(range.last, call_.layout.chunk_count());
        for (std::uint32_t psn = range.first; psn < end; ++psn) read_locked_.set_atomic(psn);
      }
    }
    locked_answers_ = answers.size();
    team->set_eager(true);
    grace_ = team->grace();
  }
  if (!team->passed(grace_)) return false;
  answers_drain_.reset();
  return true;
}

void WorkerGate::unlock(Range psns) {
  if (!call_.has_workers()) return;
  const std::uint32_t end = std::min(psns.last, call_.layout.chunk_count());
  for (std::uint32_t psn = psns.first; psn < end; ++psn) {
    if (!call_.fetch->reading(psn)) read_locked_.clear_atomic(psn);
  }
  // The next call of `lock` must lock the chunks of all answers again and begin a new grace period.
  locked_answers_ = 0;
}

}  // namespace tutti::engine
