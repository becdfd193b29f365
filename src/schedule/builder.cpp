#include "schedule/builder.hpp"

#include <algorithm>

namespace tutti::schedule {

Builder::Builder(Purpose purpose) {
  alias_ = in_place_alias(purpose);
  program_.purpose = std::move(purpose);
  program_.queues.push_back(Queue());
}

BufferSlice Builder::scratch(std::uint32_t blocks) {
  const std::uint32_t first = program_.scratch_blocks;
  program_.scratch_blocks += blocks;
  return blocks_of(Buffer::scratch, first, blocks);
}

Builder& Builder::round(std::uint32_t number) {
  round_ = static_cast<std::uint16_t>(number);
  return *this;
}

Builder& Builder::after(std::initializer_list<TaskRef> tasks) {
  for (TaskRef task : tasks) {
    if (!task.none()) pending_dependencies_.push_back(task.at());
  }
  return *this;
}

QueueIndex Builder::queue(const Queue& queue) {
  program_.queues.push_back(queue);
  return static_cast<QueueIndex>(program_.queues.size() - 1);
}

Builder& Builder::on(QueueIndex queue) {
  queue_ = queue;
  return *this;
}

Builder& Builder::explicit_only() {
  derive_ = false;
  return *this;
}

Rank Builder::around(std::int64_t distance) const {
  const std::int64_t size = ranks();
  return rank_of(static_cast<std::size_t>(((me() + distance) % size + size) % size));
}

std::uint32_t Builder::next_slot(std::map<std::uint32_t, std::uint32_t>& slots, Rank peer) {
  return slots[index(peer)]++;
}

TaskRef Builder::send(Rank to, const BufferSlice& source) {
  Task task;
  task.kind = TaskKind::send;
  task.peer = to;
  task.source = source;
  task.slot = next_slot(send_slots_, to);
  return add(task);
}

TaskRef Builder::send_keyed(Rank to, const BufferSlice& source) {
  Task task;
  task.kind = TaskKind::send;
  task.keyed = true;
  task.peer = to;
  task.source = source;
  task.slot = next_slot(send_slots_, to);
  return add(task);
}

TaskRef Builder::recv(Rank from, const BufferSlice& target) {
  Task task;
  task.kind = TaskKind::recv;
  task.peer = from;
  task.target = target;
  task.slot = next_slot(receive_slots_, from);
  return add(task);
}

TaskRef Builder::signal(Rank to) {
  Task task;
  task.kind = TaskKind::signal;
  task.peer = to;
  task.slot = next_slot(send_slots_, to);
  return add(task);
}

TaskRef Builder::count(Rank at) {
  const TaskRef task = signal(at);
  program_.tasks[task.at()].counted = true;
  return task;
}

TaskRef Builder::write(Rank at, const BufferSlice& source, const BufferSlice& target) {
  Task task;
  task.kind = TaskKind::write;
  task.peer = at;
  task.source = source;
  task.target = target;
  return add(task);
}

TaskRef Builder::read(Rank at, const BufferSlice& source, const BufferSlice& target) {
  Task task;
  task.kind = TaskKind::read;
  task.peer = at;
  task.source = source;
  task.target = target;
  return add(task);
}

TaskRef Builder::multicast(const BufferSlice& source, const BufferSlice& target,
                           std::uint16_t group) {
  Task task;
  task.kind = TaskKind::multicast;
  task.object = group;
  task.source = source;
  task.target = target;
  return add(task);
}

TaskRef Builder::collect(const BufferSlice& target, std::uint16_t group) {
  Task task;
  task.kind = TaskKind::collect;
  task.object = group;
  task.target = target;
  return add(task);
}

TaskRef Builder::copy(const BufferSlice& source, const BufferSlice& target) {
  Task task;
  task.kind = TaskKind::copy;
  task.source = source;
  task.target = target;
  return add(task);
}

TaskRef Builder::reduce(const BufferSlice& source, const BufferSlice& target, Side side) {
  Task task;
  task.kind = TaskKind::reduce;
  task.side = side;
  task.source = source;
  task.target = target;
  return add(task);
}

TaskRef Builder::wait_keys(const std::vector<Rank>& sources, const BufferSlice& target, Side side) {
  Task task;
  task.kind = TaskKind::wait_keys;
  task.side = side;
  task.target = target;
  task.first_key = static_cast<std::uint32_t>(program_.keys.size());
  task.key_count = static_cast<std::uint32_t>(sources.size());
  for (Rank source : sources) program_.keys.push_back({source, next_slot(receive_slots_, source)});
  return add(task);
}

TaskRef Builder::wait_counted(const std::vector<Rank>& sources) {
  const TaskRef task = wait_keys(sources, BufferSlice(), Side::none);
  program_.tasks[task.at()].counted = true;
  return task;
}

TaskRef Builder::wait(std::uint16_t completions, std::uint32_t count) {
  Task task;
  task.kind = TaskKind::wait;
  task.object = completions;
  task.count = count;
  return add(task);
}

TaskRef Builder::enable(QueueIndex queue, std::uint32_t count) {
  Task task;
  task.kind = TaskKind::enable;
  task.object = queue;
  task.count = count;
  return add(task);
}

TaskRef Builder::add(Task task) {
  task.round = round_;
  task.queue = queue_;
  if (derive_) derive(task);
  std::sort(pending_dependencies_.begin(), pending_dependencies_.end());
  pending_dependencies_.erase(
      std::unique(pending_dependencies_.begin(), pending_dependencies_.end()),
      pending_dependencies_.end());
  task.first_dependency = static_cast<std::uint32_t>(program_.dependencies.size());
  task.dependency_count = static_cast<std::uint32_t>(pending_dependencies_.size());
  program_.dependencies.insert(program_.dependencies.end(), pending_dependencies_.begin(),
                               pending_dependencies_.end());
  pending_dependencies_.clear();
  program_.tasks.push_back(task);
  return TaskRef(static_cast<TaskIndex>(program_.tasks.size() - 1));
}

BufferSlice Builder::place_in(World world, const BufferSlice& slice) const {
  if (world == World::two_buffers || !contains(alias_.name, slice)) return slice;
  BufferSlice place = slice;
  place.buffer = alias_.storage.buffer;
  place.first_block = alias_.storage.first_block;
  return place;
}

void Builder::derive(const Task& task) {
  derive_in(World::two_buffers, task);
  if (!alias_.name.empty()) derive_in(World::in_place, task);
}

void Builder::derive_in(World world, const Task& task) {
  const auto at = static_cast<TaskIndex>(program_.tasks.size());
  const BufferSlice source = place_in(world, task.source);
  const BufferSlice target = place_in(world, task.target);
  const bool reads = reads_source(task.kind) && !source.empty();
  const bool writes = writes_target(task.kind) && !target.empty();
  // A copy of a slice onto itself accesses no data, so it needs no dependencies.
  if (task.kind == TaskKind::copy && source == target) return;
  if (reads) depend_on_accesses(world, source, false);
  if (writes) depend_on_accesses(world, target, true);
  if (reads) note_access(world, at, source, false);
  if (writes) note_access(world, at, target, true);
}

void Builder::depend_on_accesses(World world, const BufferSlice& place, bool writes) {
  for (std::uint32_t block = place.first_block; block < place.last_block(); ++block) {
    for (const Access& access : accesses_[{world, place.buffer, block}]) {
      if ((writes || access.writes) && overlap(access.place, place))
        pending_dependencies_.push_back(access.task);
    }
  }
}

void Builder::note_access(World world, TaskIndex task, const BufferSlice& place, bool writes) {
  for (std::uint32_t block = place.first_block; block < place.last_block(); ++block) {
    BufferSlice in_block = place;
    in_block.first_block = block;
    in_block.block_count = 1;
    std::vector<Access>& accesses = accesses_[{world, place.buffer, block}];
    // A write makes older accesses within its slice redundant. A later task that conflicts with an
    // older access also conflicts with this write, and this write waits for the older access.
    if (writes)
      std::erase_if(accesses, [&](const Access& a) { return contains(in_block, a.place); });
    accesses.push_back({task, in_block, writes});
  }
}

Result<Schedule> Builder::finish() { return Schedule::make(std::move(program_)); }

}  // namespace tutti::schedule
