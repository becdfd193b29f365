#include "schedule/schedule.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/error.hpp"

namespace tutti::schedule {

namespace {

/// Groups tasks by key. The group of key k is items[offsets[k]] to items[offsets[k + 1] - 1], in
/// list order.
template <typename ForEachKey>
void group_by(std::size_t keys, std::size_t tasks, const ForEachKey& for_each_key,
              std::vector<std::uint32_t>& offsets, std::vector<TaskIndex>& items) {
  offsets.assign(keys + 1, 0);
  for (std::size_t t = 0; t < tasks; ++t) {
    for_each_key(t, [&](std::size_t key) { ++offsets[key + 1]; });
  }
  for (std::size_t k = 0; k < keys; ++k) offsets[k + 1] += offsets[k];
  items.resize(offsets.back());
  std::vector<std::uint32_t> next(offsets.begin(), offsets.end() - 1);
  for (std::size_t t = 0; t < tasks; ++t) {
    for_each_key(t, [&](std::size_t key) { items[next[key]++] = static_cast<TaskIndex>(t); });
  }
}

std::span<const TaskIndex> group(const std::vector<std::uint32_t>& offsets,
                                 const std::vector<TaskIndex>& items, std::size_t key) {
  return std::span(items).subspan(offsets[key], offsets[key + 1] - offsets[key]);
}

bool before(const Match& a, const Match& b) {
  return std::tie(a.peer, a.slot) < std::tie(b.peer, b.slot);
}

std::optional<std::size_t> find_match(const std::vector<Match>& sorted, Rank peer,
                                      std::uint32_t slot) {
  const Match wanted{tutti::index(peer), slot, 0, 0};
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), wanted, before);
  if (at == sorted.end() || before(wanted, *at)) return std::nullopt;
  return static_cast<std::size_t>(at - sorted.begin());
}

}  // namespace

Result<Collective> collective_named(std::string_view name) {
  std::string known;
  for (std::uint32_t c = 0; c < kCollectives; ++c) {
    if (name == to_string(static_cast<Collective>(c))) return static_cast<Collective>(c);
    known += known.empty() ? "" : ", ";
    known += to_string(static_cast<Collective>(c));
  }
  return failure(Code::invalid_argument, "no collective is named '{}': choose one of {}", name,
                 known);
}

std::uint32_t blocks_in(const Purpose& purpose, Buffer buffer) {
  if (buffer != Buffer::send && buffer != Buffer::receive) return 0;
  const bool sends = buffer == Buffer::send;
  const std::uint32_t at_root = purpose.rank == purpose.root ? 1 : 0;
  switch (purpose.collective) {
    case Collective::barrier:
      return 0;
    case Collective::broadcast:
      return sends ? 0 : 1;
    case Collective::allgather:
    case Collective::allgatherv:
      return sends ? 1 : purpose.ranks;
    case Collective::gather:
    case Collective::gatherv:
      return sends ? 1 : at_root * purpose.ranks;
    case Collective::scatter:
    case Collective::scatterv:
      return sends ? at_root * purpose.ranks : 1;
    case Collective::alltoall:
    case Collective::alltoallv:
      return purpose.ranks;
    case Collective::reduce:
      return sends ? 1 : at_root;
    case Collective::reduce_scatter:
    case Collective::reduce_scatterv:
      return sends ? purpose.ranks : 1;
    case Collective::allreduce:
      return 1;
  }
  return 0;
}

Result<Schedule> Schedule::make(Program program) {
  Schedule schedule;
  schedule.program_ = std::move(program);
  if (Status checked = schedule.check(); !checked) return checked;
  schedule.index();
  return schedule;
}

std::uint32_t Schedule::blocks(Buffer buffer) const {
  return buffer == Buffer::scratch ? program_.scratch_blocks : blocks_in(program_.purpose, buffer);
}

Status Schedule::check() const {
  const Purpose& purpose = program_.purpose;
  if (purpose.ranks == 0 || tutti::index(purpose.rank) >= purpose.ranks ||
      tutti::index(purpose.root) >= purpose.ranks)
    return failure(Code::invalid_argument,
                   "rank {} or root {} is not one of the {} ranks of the schedule: choose both "
                   "from 0 to the number of ranks - 1",
                   tutti::index(purpose.rank), tutti::index(purpose.root), purpose.ranks);
  if (program_.queues.empty() || program_.queues.size() >= kNoIndex)
    return failure(Code::invalid_argument,
                   "the schedule of rank {} has {} queues: use 1 to {} queues",
                   tutti::index(purpose.rank), program_.queues.size(), kNoIndex - 1);
  for (TaskIndex t = 0; t < program_.tasks.size(); ++t) {
    if (Status checked = check_task(t); !checked) return checked;
  }
  return {};
}

Status Schedule::check_task(TaskIndex at) const {
  const Task& task = program_.tasks[at];
  const auto wrong = [&](const std::string& what) {
    return failure(Code::invalid_argument, "rank {} task {} ({}): {}",
                   tutti::index(program_.purpose.rank), at, to_string(task.kind), what);
  };
  if (task.queue >= program_.queues.size())
    return wrong(fmt::format("queue {} does not exist: declare it first", task.queue));
  if (task.kind == TaskKind::enable && task.object >= program_.queues.size())
    return wrong(fmt::format("enables queue {}, which does not exist: declare it", task.object));
  const bool may_count = task.kind == TaskKind::signal || task.kind == TaskKind::wait_keys;
  if (task.counted && (!may_count || !task.target.empty()))
    return wrong("has `counted` set: set it only in a signal, or in a wait_keys without a target");
  if (sends_message(task.kind) && (task.slot & kReservedSlot) == kReservedSlot)
    return wrong(fmt::format("match slot {} is reserved: choose another slot", task.slot));
  const auto fits = [](std::uint64_t first, std::uint64_t count, std::size_t size) {
    return first + count <= size;
  };
  if (!fits(task.first_dependency, task.dependency_count, program_.dependencies.size()) ||
      !fits(task.first_key, task.key_count, program_.keys.size()))
    return wrong("its dependencies or keys are outside the schedule's lists: use a Builder");
  for (std::uint32_t d = 0; d < task.dependency_count; ++d) {
    const TaskIndex before = program_.dependencies[task.first_dependency + d];
    if (before >= at)
      return wrong(
          fmt::format("depends on task {}, which does not precede it: move that task up", before));
  }
  const auto counts = [&](const Queue& queue) { return queue.completions == task.object; };
  if (task.kind == TaskKind::wait &&
      std::none_of(program_.queues.begin(), program_.queues.end(), counts))
    return wrong(
        fmt::format("waits for completion queue {}, which no queue feeds: use a completion "
                    "queue that a queue feeds",
                    task.object));
  for (const BufferSlice* slice : {&task.source, &task.target}) {
    if (slice->parts == 0 || slice->part_first >= slice->part_last ||
        slice->part_last > slice->parts)
      return wrong(fmt::format("parts {}..{} of {} are invalid: choose 0 <= first < last <= parts",
                               slice->part_first, slice->part_last, slice->parts));
    if (slice->block_count > 1 && !slice->whole_blocks())
      return wrong("names parts of several blocks: name the parts of one block");
  }
  return {};
}

void Schedule::index() {
  const std::vector<Task>& tasks = program_.tasks;
  const auto by_dependency = [&](std::size_t t, const auto& add) {
    for (TaskIndex before : dependencies(static_cast<TaskIndex>(t))) add(before);
  };
  group_by(tasks.size(), tasks.size(), by_dependency, dependent_offsets_, dependents_);
  const auto by_queue = [&](std::size_t t, const auto& add) { add(tasks[t].queue); };
  group_by(program_.queues.size(), tasks.size(), by_queue, entry_offsets_, entries_);

  for (const Queue& queue : program_.queues) {
    if (queue.completions != kNoIndex)
      completion_queues_ = std::max(completion_queues_, queue.completions + 1u);
  }
  for (const Task& task : tasks) {
    for (const BufferSlice* slice : {&task.source, &task.target}) {
      if (slice->block_count > 1 || slice->buffer == Buffer::scratch) single_blocks_ = false;
    }
  }
  index_messages();
}

void Schedule::index_messages() {
  for (TaskIndex t = 0; t < program_.tasks.size(); ++t) {
    const Task& task = program_.tasks[t];
    if (sends_message(task.kind)) departures_.push_back({tutti::index(task.peer), task.slot, t, 0});
    if (task.kind == TaskKind::recv)
      arrivals_.push_back({tutti::index(task.peer), task.slot, t, 0});
    if (task.kind != TaskKind::wait_keys) continue;
    for (std::uint32_t k = 0; k < task.key_count; ++k) {
      const Key& key = keys(t)[k];
      arrivals_.push_back({tutti::index(key.source), key.slot, t, k});
    }
  }
  for (std::vector<Match>* list : {&arrivals_, &departures_})
    std::sort(list->begin(), list->end(), before);
}

std::optional<std::size_t> Schedule::arrival_of(Rank source, std::uint32_t slot) const {
  return find_match(arrivals_, source, slot);
}

std::optional<TaskIndex> Schedule::sender_of(Rank peer, std::uint32_t slot) const {
  const auto at = find_match(departures_, peer, slot);
  if (!at) return std::nullopt;
  return departures_[*at].task;
}

std::span<const TaskIndex> Schedule::dependencies(TaskIndex task) const {
  const Task& of = program_.tasks[task];
  return std::span(program_.dependencies).subspan(of.first_dependency, of.dependency_count);
}

std::span<const TaskIndex> Schedule::dependents(TaskIndex task) const {
  return group(dependent_offsets_, dependents_, task);
}

std::span<const Key> Schedule::keys(TaskIndex task) const {
  const Task& of = program_.tasks[task];
  return std::span(program_.keys).subspan(of.first_key, of.key_count);
}

std::span<const TaskIndex> Schedule::entries(QueueIndex queue) const {
  return group(entry_offsets_, entries_, queue);
}

bool operator==(const Schedule& a, const Schedule& b) {
  const Program& p = a.program_;
  const Program& q = b.program_;
  return p.purpose == q.purpose && p.scratch_blocks == q.scratch_blocks && p.queues == q.queues &&
         p.tasks == q.tasks && p.dependencies == q.dependencies && p.keys == q.keys;
}

}  // namespace tutti::schedule
