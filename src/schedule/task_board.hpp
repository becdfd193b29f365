// The task board decides which tasks of a schedule may be issued now. An engine takes tasks from
// `next`, carries them out, and reports each completion; the board itself carries out waits and
// enables.
//
// Each run of a schedule resets the board. The board keeps its storage, so that later runs allocate
// nothing. Only one thread at a time may use the board.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace tutti::schedule {

class TaskBoard {
 public:
  /// Begins a run of `schedule`, which must outlive the run.
  void reset(const Schedule& schedule);

  /// Sets `task` to a task that may be issued now, or returns false if there is none. Receives
  /// without dependencies come first ([Khalilov24] 3.3).
  bool next(TaskIndex& task);
  /// Reports that a task from `next` has been carried out. The engine must call this function
  /// exactly once for each task that it took from `next`.
  void complete(TaskIndex task);

  bool done() const { return completed_ == tasks_.size(); }
  std::uint32_t completed() const { return completed_; }
  std::uint32_t total() const { return static_cast<std::uint32_t>(tasks_.size()); }
  bool is_complete(TaskIndex task) const { return tasks_[task].complete; }
  /// True if the task is issued and not yet carried out.
  bool is_open(TaskIndex task) const { return tasks_[task].issued && !tasks_[task].carried_out; }

 private:
  struct TaskState {
    std::uint32_t missing = 0;  ///< number of dependencies that are not complete yet
    bool issued = false;        ///< true: the task has entered the ready list
    bool carried_out = false;
    /// True: the task has been carried out and, if its queue is ordered, so have all earlier
    /// entries of the queue.
    bool complete = false;
  };
  struct QueueState {
    std::uint32_t issued = 0;  ///< number of the queue's entries that have entered the ready list
    std::uint32_t completed = 0;  ///< number of the queue's entries that are complete
    /// Number of the queue's entries that enables have released; the largest value of the type if
    /// the queue is not held.
    std::uint32_t released = 0;
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
  /// For each completion queue, the number of completions since the start of the run.
  std::vector<std::uint64_t> completions_;
  /// For each wait, the value in `completions_` at which the wait is complete.
  std::vector<std::uint64_t> thresholds_;
  /// For each completion queue, the sum of the counts of its waits. find_thresholds() adds them in
  /// the order of the task list; the sum up to a wait is the threshold of this wait.
  std::vector<std::uint64_t> awaited_;
  std::vector<ParkedWait> parked_;
  std::vector<TaskIndex> ready_;  ///< tasks that may be issued, each added once
  std::size_t first_ready_ = 0;
  std::uint32_t completed_ = 0;
};

}  // namespace tutti::schedule
