// The collectives of one communicator at one rank, from submission to completion. They begin in the
// order of submission, which is the same on all ranks and determines their epochs.
//
// The data phases of two collectives never overlap at one rank: a collective begins only when all
// active ones are locally complete. The handshakes of active collectives, and the READs by
// neighbours, continue meanwhile.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/circular.hpp"
#include "engine/core/counter_words.hpp"
#include "engine/core/operation.hpp"
#include "engine/core/submission_queue.hpp"
#include "observe/counters.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class OperationQueue {
 public:
  OperationQueue(std::uint32_t first_epoch, observe::Counters& counters)
      : counters_(counters), next_epoch_(first_epoch) {}

  /// Hands a collective to the engine. Any thread may call this; it takes no lock.
  void submit(std::unique_ptr<Operation> operation) { submitted_.push(std::move(operation)); }

  /// Whether the owner polls this communicator only after an event (`EnginePoller`). Any thread may
  /// use the flag.
  std::atomic<bool>& dormant() { return dormant_; }

  // Only the owner of the engine calls the functions below.

  bool has_submissions() const { return !submitted_.empty(); }
  /// Whether a collective is submitted, queued or active.
  bool busy() const { return has_submissions() || !idle(); }
  /// Queues the submitted collectives. If the communicator has failed, completes them with an error
  /// instead.
  void take_submissions(const Status& failed);
  bool has_queued() const { return !queued_.empty(); }
  /// Whether nothing is queued, active or set aside.
  bool idle() const { return active_.empty() && queued_.empty() && !unbegun_; }
  /// Whether every active collective allows the next one to begin.
  bool may_begin() const {
    return std::all_of(active_.begin(), active_.end(),
                       [](const auto& one) { return one->locally_complete(); });
  }
  /// Reserves memory so that the next call of `activate` does not throw.
  void make_room() { active_.reserve(active_.size() + 1); }
  /// Moves out the oldest queued collective.
  std::unique_ptr<Operation> take_queued();
  /// Makes a collective active and raises `next_epoch` by one. The collective's epoch is the value
  /// that `next_epoch` had before.
  Operation& activate(std::unique_ptr<Operation> operation);
  /// Sets aside the collective that became active last; called if an exception interrupted its
  /// `begin`. The engine no longer polls this collective, and `fail_all` ends it.
  void set_aside_last() {
    unbegun_ = std::move(active_.back());
    active_.pop_back();
  }
  std::uint32_t next_epoch() const { return next_epoch_; }
  bool has_begun(std::uint32_t epoch) const { return circular_before(epoch, next_epoch_); }

  std::span<const std::unique_ptr<Operation>> active() const { return active_; }
  /// The active collective of this epoch; null: none.
  Operation* find(std::uint32_t epoch) const {
    for (const auto& operation : active_) {
      if (operation->epoch() == epoch) return operation.get();
    }
    return nullptr;
  }
  /// The data for which the collective of `completion` waits; a collective that has not begun waits
  /// for the end of an active one. Empty if `completion` belongs to no queued or active collective.
  Missing missing_of(const Completion& completion) const;
  /// Moves out the active collective with index `position`.
  std::unique_ptr<Operation> take(std::size_t position);
  /// The words to which other ranks add by atomic operations, shared by the collectives of this
  /// communicator.
  CounterWords& counter_words() { return counter_words_; }
  /// Tells the application that a collective has ended.
  void complete(Operation& operation, const Status& status);
  /// Ends all collectives because of a failure. Active collective i ends with results[i], or with
  /// `failed` if there is no results[i]. A queued collective ends with an error that includes the
  /// text of `failed`.
  void fail_all(std::span<const Status> results, const Status& failed);

  /// Whether a slot exchange is active and no other collective is queued or active.
  bool only_slot_exchange() const {
    return active_.size() == 1 && active_.front()->meets() && queued_.empty();
  }
  /// Whether an active collective receives chunks.
  bool expects_chunks() const {
    return std::any_of(active_.begin(), active_.end(),
                       [](const auto& one) { return one->late_store_bytes() > 0; });
  }
  /// Whether an active operation wants the ranks to start together (`Operation::begins_together`).
  bool begins_together() const {
    return std::any_of(active_.begin(), active_.end(),
                       [](const auto& one) { return one->begins_together(); });
  }
  /// Whether data waits for room in a send queue.
  bool blocked() const {
    return std::any_of(active_.begin(), active_.end(),
                       [](const auto& one) { return one->blocked(); });
  }
  /// The time at which an active collective must be polled even if nothing arrives.
  Instant next_deadline() const;
  /// A number that changes whenever a collective begins, receives data or completes.
  std::uint64_t progress() const;

 private:
  observe::Counters& counters_;
  CounterWords counter_words_;
  SubmissionQueue<Operation> submitted_;
  std::deque<std::unique_ptr<Operation>> queued_;
  std::vector<std::unique_ptr<Operation>> active_;
  std::unique_ptr<Operation> unbegun_;  ///< collective that was set aside; null: none
  std::uint32_t next_epoch_;
  std::atomic<bool> dormant_{false};
};

}  // namespace tutti::engine
