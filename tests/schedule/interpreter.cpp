#include "interpreter.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "schedule/text.hpp"

namespace tutti::schedule {

Interpreter::Interpreter(std::span<const Schedule> schedules, std::span<const Shape> shapes,
                         std::vector<Memory>& memory, Combine combine, std::uint64_t seed)
    : schedules_(schedules),
      memory_(memory),
      combine_(combine),
      random_(seed),
      ranks_(schedules.size()) {
  for (std::uint32_t r = 0; r < schedules.size(); ++r) {
    const Schedule& schedule = schedules[r];
    RankState& state = ranks_[r];
    state.tasks.resize(schedule.tasks().size());
    for (State& task : state.tasks) {
      task.late = random_.below(2) == 0;
      task.rendezvous = random_.below(2) == 0;
    }
    state.filled.resize(schedule.tasks().size());
    if (Status status = fill(schedule, shapes[r], state.filled); !status) failure_ = status;
    state.released.resize(schedule.queues().size());
    state.arrived.resize(schedule.completion_queues());
    state.consumed.resize(schedule.completion_queues());
    state.place.resize(schedule.tasks().size());
    for (std::size_t q = 0; q < schedule.queues().size(); ++q) {
      std::uint32_t place = 0;
      for (TaskIndex t : schedule.entries(static_cast<QueueIndex>(q))) state.place[t] = place++;
    }
    left_ += schedule.tasks().size() + 1;  // one step per task and one for the start of the rank
  }
}

Status Interpreter::run() {
  while (failure_ && left_ > 0) {
    const auto first = static_cast<std::uint32_t>(random_.below(ranks_.size()));
    bool advanced = false;
    for (std::uint32_t r = 0; r < ranks_.size() && !advanced; ++r)
      advanced = advance(static_cast<std::uint32_t>((first + r) % ranks_.size()));
    if (advanced) continue;
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
      for (TaskIndex t = 0; t < ranks_[r].tasks.size(); ++t) {
        if (ranks_[r].tasks[t].step != Step::complete)
          return failure(Code::timeout, "{} never completes", describe(schedules_[r], t));
      }
    }
  }
  return failure_;
}

/// Takes one step of a randomly chosen task; false if no task can take a step.
bool Interpreter::advance(std::uint32_t rank) {
  RankState& state = ranks_[rank];
  if (!state.begun) {
    begin(rank);
    return true;
  }
  const std::size_t tasks = state.tasks.size();
  const std::size_t first = random_.below(tasks);
  for (std::size_t n = 0; n < tasks; ++n) {
    const auto t = static_cast<TaskIndex>((first + n) % tasks);
    if (state.tasks[t].step == Step::waiting && may_issue(rank, t)) {
      issue(rank, t);
      return true;
    }
    if (state.tasks[t].step == Step::issued && may_complete(rank, t)) {
      complete(rank, t);
      return true;
    }
  }
  return false;
}

void Interpreter::begin(std::uint32_t rank) {
  ranks_[rank].begun = true;
  --left_;
  const Schedule& schedule = schedules_[rank];
  for (TaskIndex t = 0; t < schedule.tasks().size(); ++t) {
    const Task& task = schedule.tasks()[t];
    const QueueKind kind = schedule.queues()[task.queue].kind;
    const bool posts = kind == QueueKind::free || kind == QueueKind::receive;
    if (posts && is_posted_receive(task.kind) && task.dependency_count == 0 && may_issue(rank, t))
      issue(rank, t);
  }
}

bool Interpreter::may_issue(std::uint32_t rank, TaskIndex t) const {
  const auto before = schedules_[rank].dependencies(t);
  const bool ready = std::all_of(before.begin(), before.end(), [&](TaskIndex d) {
    return ranks_[rank].tasks[d].step == Step::complete;
  });
  return ready && queue_allows(rank, t);
}

bool Interpreter::queue_allows(std::uint32_t rank, TaskIndex t) const {
  const RankState& state = ranks_[rank];
  const QueueIndex q = schedules_[rank].tasks()[t].queue;
  const Queue& queue = schedules_[rank].queues()[q];
  const std::uint32_t place = state.place[t];
  if (queue.held && place >= state.released[q]) return false;
  if (queue.kind == QueueKind::free || place == 0) return true;
  const Step previous = state.tasks[schedules_[rank].entries(q)[place - 1]].step;
  const bool sequential = queue.kind == QueueKind::management || queue.kind == QueueKind::host;
  return sequential ? previous == Step::complete : previous != Step::waiting;
}

void Interpreter::issue(std::uint32_t rank, TaskIndex t) {
  const Task& task = schedules_[rank].tasks()[t];
  State& state = ranks_[rank].tasks[t];
  const FilledTask& filled = ranks_[rank].filled[t];
  state.step = Step::issued;
  const bool moves = reads_source(task.kind) || task.kind == TaskKind::read;
  if (sends_message(task.kind)) messages_[{rank, index(task.peer), task.slot}].sender = &state;
  if (task.kind == TaskKind::recv) messages_[{index(task.peer), rank, task.slot}].posted = true;
  if ((moves || task.kind == TaskKind::signal) && !state.late) take(rank, t);
  // Once the task is issued, its target may hold any bytes, unless the task also reads the target.
  const bool itself = task.kind == TaskKind::copy && filled.target.size_bytes == 0;
  if (task.kind == TaskKind::write) scribble(index(task.peer), filled.target);
  if (writes_target(task.kind) && task.kind != TaskKind::reduce &&
      task.kind != TaskKind::wait_keys && !itself)
    scribble(rank, filled.target);
}

void Interpreter::take(std::uint32_t rank, TaskIndex t) {
  const Task& task = schedules_[rank].tasks()[t];
  State& state = ranks_[rank].tasks[t];
  const std::uint32_t from = task.kind == TaskKind::read ? index(task.peer) : rank;
  const std::span<std::byte> source = bytes(from, ranks_[rank].filled[t].source);
  state.taken.assign(source.begin(), source.end());
  state.has_taken = true;
}

bool Interpreter::has_arrived(const Key& key, std::uint32_t rank) {
  const auto message = messages_.find({index(key.source), rank, key.slot});
  return message != messages_.end() && message->second.sender != nullptr &&
         message->second.sender->has_taken;
}

bool Interpreter::may_complete(std::uint32_t rank, TaskIndex t) {
  const Task& task = schedules_[rank].tasks()[t];
  const RankState& state = ranks_[rank];
  const QueueIndex q = task.queue;
  const QueueKind kind = schedules_[rank].queues()[q].kind;
  if (kind != QueueKind::free && state.place[t] > 0 &&
      state.tasks[schedules_[rank].entries(q)[state.place[t] - 1]].step != Step::complete)
    return false;
  switch (task.kind) {
    case TaskKind::send:
    case TaskKind::signal: {
      const bool posted = messages_[{rank, index(task.peer), task.slot}].posted;
      return !state.tasks[t].rendezvous || task.keyed || task.counted || posted;
    }
    case TaskKind::recv:
      return has_arrived({task.peer, task.slot}, rank);
    case TaskKind::wait_keys: {
      const auto keys = schedules_[rank].keys(t);
      return std::all_of(keys.begin(), keys.end(),
                         [&](const Key& key) { return has_arrived(key, rank); });
    }
    case TaskKind::collect:
      return all_chunks_here(rank, t);
    case TaskKind::wait:
      return state.arrived[task.object] >= state.consumed[task.object] + task.count;
    default:
      return true;
  }
}

/// True if the multicasts of the other ranks cover the whole target of the collect task.
bool Interpreter::all_chunks_here(std::uint32_t rank, TaskIndex t) const {
  const Task& collect = schedules_[rank].tasks()[t];
  std::uint64_t blocks = 0;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    for (TaskIndex m = 0; m < ranks_[r].tasks.size() && r != rank; ++m) {
      const Task& task = schedules_[r].tasks()[m];
      if (task.kind == TaskKind::multicast && task.object == collect.object &&
          contains(collect.target, task.target) && ranks_[r].tasks[m].has_taken)
        blocks += task.target.block_count;
    }
  }
  return blocks >= collect.target.block_count;
}

void Interpreter::place_chunks(std::uint32_t rank, TaskIndex t) {
  const Task& collect = schedules_[rank].tasks()[t];
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    for (TaskIndex m = 0; m < ranks_[r].tasks.size() && r != rank; ++m) {
      const Task& task = schedules_[r].tasks()[m];
      if (task.kind != TaskKind::multicast || task.object != collect.object ||
          !contains(collect.target, task.target))
        continue;
      const Extent& whole = ranks_[rank].filled[t].target;
      const std::uint64_t block = whole.size_bytes / collect.target.block_count;
      put(rank,
          {whole.buffer,
           whole.offset_bytes + (task.target.first_block - collect.target.first_block) * block,
           task.target.block_count * block},
          ranks_[r].tasks[m].taken);
    }
  }
}

void Interpreter::complete(std::uint32_t rank, TaskIndex t) {
  const Task& task = schedules_[rank].tasks()[t];
  RankState& ranks = ranks_[rank];
  State& state = ranks.tasks[t];
  const FilledTask& filled = ranks.filled[t];
  state.step = Step::complete;
  --left_;
  const bool moves =
      reads_source(task.kind) || task.kind == TaskKind::read || task.kind == TaskKind::signal;
  if (moves && !state.has_taken) take(rank, t);
  const std::uint16_t completions = schedules_[rank].queues()[task.queue].completions;
  if (completions != kNoIndex) ++ranks.arrived[completions];
  switch (task.kind) {
    case TaskKind::recv:
      return put(rank, filled.target, messages_[{index(task.peer), rank, task.slot}].sender->taken);
    case TaskKind::collect:
      return place_chunks(rank, t);
    case TaskKind::write:
      return put(index(task.peer), filled.target, state.taken);
    case TaskKind::read:
    case TaskKind::copy:
      return put(rank, filled.target, state.taken);
    case TaskKind::reduce:
      return fold(rank, filled.target, state.taken, task.side);
    case TaskKind::wait_keys:
      for (const Key& key : schedules_[rank].keys(t))
        fold(rank, filled.target, messages_[{index(key.source), rank, key.slot}].sender->taken,
             task.side);
      return;
    case TaskKind::wait:
      ranks.consumed[task.object] += task.count;
      return;
    case TaskKind::enable:
      ranks.released[task.object] += task.count;
      return;
    case TaskKind::send:
    case TaskKind::signal:
    case TaskKind::multicast:
      return;
  }
}

std::span<std::byte> Interpreter::bytes(std::uint32_t rank, const Extent& at) {
  std::vector<std::byte>& buffer = memory_[rank].of(at.buffer);
  if (at.offset_bytes + at.size_bytes > buffer.size()) {
    failure_ =
        failure(Code::invalid_argument, "rank {} accesses bytes {}..{} of a buffer of {} bytes",
                rank, at.offset_bytes, at.offset_bytes + at.size_bytes, buffer.size());
    return {};
  }
  return std::span(buffer).subspan(at.offset_bytes, at.size_bytes);
}

void Interpreter::put(std::uint32_t rank, const Extent& at, std::span<const std::byte> data) {
  const std::span<std::byte> target = bytes(rank, at);
  if (data.size() != target.size())
    failure_ = failure(Code::invalid_argument, "rank {} gets {} bytes for a target of {} bytes",
                       rank, data.size(), target.size());
  else
    std::copy(data.begin(), data.end(), target.begin());
}

void Interpreter::fold(std::uint32_t rank, const Extent& at, std::span<const std::byte> data,
                       Side side) {
  const std::span<std::byte> target = bytes(rank, at);
  if (data.size() != target.size() || side == Side::none) return put(rank, at, data);
  side == Side::after ? combine_(target, data, target) : combine_(data, target, target);
}

void Interpreter::scribble(std::uint32_t rank, const Extent& at) {
  for (std::byte& byte : bytes(rank, at)) byte = static_cast<std::byte>(random_.next());
}

}  // namespace tutti::schedule
