#include "schedule/task_board.hpp"

#include <algorithm>
#include <limits>

namespace tutti::schedule {

void TaskBoard::reset(const Schedule& schedule) {
  schedule_ = &schedule;
  const std::size_t tasks = schedule.tasks().size();
  tasks_.assign(tasks, {});
  queues_.assign(schedule.queues().size(), {});
  completions_.assign(schedule.completion_queues(), 0);
  parked_.clear();
  ready_.clear();
  ready_.reserve(tasks);
  first_ready_ = 0;
  completed_ = 0;
  find_thresholds();
  for (std::size_t q = 0; q < queues_.size(); ++q) {
    if (!schedule.queues()[q].held) queues_[q].released = std::numeric_limits<std::uint32_t>::max();
  }
  for (TaskIndex t = 0; t < tasks; ++t)
    tasks_[t].missing = static_cast<std::uint32_t>(schedule.dependencies(t).size());
  const auto offer_all = [&](bool receives) {
    for (TaskIndex t = 0; t < tasks; ++t) {
      if (tasks_[t].missing == 0 && is_posted_receive(schedule.tasks()[t].kind) == receives)
        offer(t);
    }
  };
  offer_all(true);
  offer_all(false);
}

void TaskBoard::find_thresholds() {
  thresholds_.assign(tasks_.size(), 0);
  awaited_.assign(completions_.size(), 0);
  for (TaskIndex t = 0; t < tasks_.size(); ++t) {
    const Task& task = schedule_->tasks()[t];
    if (task.kind == TaskKind::wait) thresholds_[t] = awaited_[task.object] += task.count;
  }
}

bool TaskBoard::next(TaskIndex& task) {
  while (first_ready_ < ready_.size()) {
    task = ready_[first_ready_++];
    if (!carry_out(task)) return true;
  }
  return false;
}

/// Carries out a wait or an enable; returns false for any other task, which the engine must carry
/// out.
bool TaskBoard::carry_out(TaskIndex at) {
  const Task& task = schedule_->tasks()[at];
  if (task.kind == TaskKind::enable) {
    release(task.object, task.count);
    complete(at);
    return true;
  }
  if (task.kind != TaskKind::wait) return false;
  if (completions_[task.object] >= thresholds_[at]) {
    complete(at);
  } else {
    parked_.push_back({at, thresholds_[at]});
  }
  return true;
}

void TaskBoard::complete(TaskIndex at) {
  tasks_[at].carried_out = true;
  const QueueIndex queue = schedule_->tasks()[at].queue;
  if (!in_order(schedule_->queues()[queue].kind)) {
    report(at);
    return;
  }
  const std::span<const TaskIndex> entries = schedule_->entries(queue);
  QueueState& state = queues_[queue];
  while (state.completed < entries.size() && tasks_[entries[state.completed]].carried_out)
    report(entries[state.completed++]);
  advance(queue);
}

void TaskBoard::report(TaskIndex at) {
  tasks_[at].complete = true;
  ++completed_;
  for (TaskIndex after : schedule_->dependents(at)) {
    if (--tasks_[after].missing == 0) offer(after);
  }
  const std::uint16_t completions = schedule_->queues()[schedule_->tasks()[at].queue].completions;
  if (completions != kNoIndex) count_completion(completions);
}

void TaskBoard::count_completion(std::uint16_t completions) {
  ++completions_[completions];
  for (std::size_t i = 0; i < parked_.size();) {
    const ParkedWait wait = parked_[i];
    if (completions_[schedule_->tasks()[wait.task].object] < wait.completions) {
      ++i;
      continue;
    }
    parked_[i] = parked_.back();
    parked_.pop_back();
    complete(wait.task);
  }
}

/// Issues a task whose dependencies are complete, if its queue permits that now.
void TaskBoard::offer(TaskIndex at) {
  const QueueIndex queue = schedule_->tasks()[at].queue;
  if (in_order(schedule_->queues()[queue].kind)) {
    advance(queue);
    return;
  }
  const QueueState& state = queues_[queue];
  if (state.released == std::numeric_limits<std::uint32_t>::max()) {
    make_ready(at);
    return;
  }
  const std::span<const TaskIndex> entries = schedule_->entries(queue);
  const auto place = std::find(entries.begin(), entries.end(), at) - entries.begin();
  if (place < state.released) make_ready(at);
}

void TaskBoard::make_ready(TaskIndex at) {
  if (tasks_[at].issued) return;
  tasks_[at].issued = true;
  ready_.push_back(at);
}

/// Issues all entries of an ordered queue that may be issued now.
void TaskBoard::advance(QueueIndex queue) {
  const std::span<const TaskIndex> entries = schedule_->entries(queue);
  QueueState& state = queues_[queue];
  const bool serial = one_by_one(schedule_->queues()[queue].kind);
  while (state.issued < entries.size() && state.issued < state.released) {
    const TaskIndex next = entries[state.issued];
    if (tasks_[next].missing > 0 || (serial && state.completed < state.issued)) return;
    ++state.issued;
    make_ready(next);
  }
}

void TaskBoard::release(QueueIndex queue, std::uint32_t count) {
  QueueState& state = queues_[queue];
  if (state.released == std::numeric_limits<std::uint32_t>::max()) return;
  const std::uint32_t before = state.released;
  state.released += count;
  if (in_order(schedule_->queues()[queue].kind)) {
    advance(queue);
    return;
  }
  const std::span<const TaskIndex> entries = schedule_->entries(queue);
  for (std::uint32_t i = before; i < state.released && i < entries.size(); ++i) {
    if (tasks_[entries[i]].missing == 0) make_ready(entries[i]);
  }
}

}  // namespace tutti::schedule
