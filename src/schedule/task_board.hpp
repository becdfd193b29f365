// Which task of a schedule may be issued now: dependencies, queues, waits and enables of one run,
// without any input or output. An engine takes tasks from `next`, carries them out, and says when
// they are complete; waits and enables the board carries out by itself.
//
// A board is reset for each call and keeps its storage, so nothing is allocated in the steady state
// (C3). Used by one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace tutti::schedule {

class TaskBoard {
 public:
  /// Begins a run. The schedule outlives it.
  void reset(const Schedule& schedule);

  /// Takes a task that may be issued; false where there is none for now. Receives that wait for
  /// nothing come before everything else (K3).
  bool next(TaskIndex& task);
  /// A task from `next` is carried out. May be called at any time after, once a task.
  void complete(TaskIndex task);

  bool done() const { return completed_ == tasks_.size(); }
  std::uint32_t completed() const { return completed_; }
  std::uint32_t total() const { return static_cast<std::uint32_t>(tasks_.size()); }
  bool is_complete(TaskIndex task) const { return tasks_[task].complete; }
  /// Issued and not complete: what the rank is waiting for.
  bool is_open(TaskIndex task) const { return tasks_[task].issued && !tasks_[task].carried_out; }

 private:
  struct TaskState {
    std::uint32_t missing = 0;  ///< dependencies that are not complete
    bool issued = false;        ///< in the ready list, or given out
    bool carried_out = false;
    bool complete = false;  ///< and reported: in order, where its queue completes in order
  };
  struct QueueState {
    std::uint32_t issued = 0;     ///< entries given to the ready list, in order
    std::uint32_t completed = 0;  ///< entries reported, in order
    std::uint32_t released = 0;   ///< entries that may be issued
  };
  struct ParkedWait {
    TaskIndex task;
    std::uint64_t completions;
  };

  static bool in_order(QueueKind kind) { return kind != QueueKind::free; }
  static bool one_by_one(QueueKind kind) {
    return kind == QueueKind::management || kind == QueueKind::host;
  }

  void make_ready(TaskIndex task);
  void offer(TaskIndex task);
  void advance(QueueIndex queue);
  void release(QueueIndex queue, std::uint32_t count);
  void report(TaskIndex task);
  void count_completion(std::uint16_t completions);
  bool carry_out(TaskIndex task);
  void find_thresholds();

  const Schedule* schedule_ = nullptr;
  std::vector<TaskState> tasks_;
  std::vector<QueueState> queues_;
  std::vector<std::uint64_t> completions_;  ///< by completion queue, since the beginning
  std::vector<std::uint64_t> thresholds_;   ///< by task: what a wait needs, since the beginning
  std::vector<std::uint64_t> awaited_;      ///< by completion queue: by the waits so far
  std::vector<ParkedWait> parked_;
  std::vector<TaskIndex> ready_;  ///< every task enters once
  std::size_t first_ready_ = 0;
  std::uint32_t completed_ = 0;
};

}  // namespace tutti::schedule
