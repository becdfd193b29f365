#include "schedule/text.hpp"

#include <fmt/format.h>

#include <array>

namespace tutti::schedule {

namespace {

std::string queue_text(const Queue& queue) {
  std::string text = to_string(queue.kind);
  if (queue.kind == QueueKind::send) text += fmt::format(" to {}", index(queue.peer));
  if (queue.kind == QueueKind::receive) text += fmt::format(" from {}", index(queue.peer));
  if (queue.channel != Channel::data) text += fmt::format(" channel {}", to_string(queue.channel));
  if (queue.held) text += " held";
  if (queue.completions != kNoIndex) text += fmt::format(" completions {}", queue.completions);
  return text;
}

std::string keys_text(const Schedule& schedule, TaskIndex task) {
  std::string text;
  for (const Key& key : schedule.keys(task))
    text += fmt::format(" {}:{}", index(key.source), key.slot);
  return text;
}

std::string side_text(Side side) {
  return side == Side::after ? std::string() : fmt::format(" {}", to_string(side));
}

std::string group_text(std::uint16_t group) {
  return group == 0 ? std::string() : fmt::format(" group {}", group);
}

/// The text of what a task does, without its queue, round and dependencies.
std::string action_text(const Schedule& schedule, TaskIndex at) {
  const Task& task = schedule.tasks()[at];
  const std::uint32_t peer = index(task.peer);
  const std::string source = to_string(task.source);
  const std::string target = to_string(task.target);
  switch (task.kind) {
    case TaskKind::send:
      return fmt::format("send to {} slot {}{} from {}", peer, task.slot,
                         task.keyed ? " keyed" : "", source);
    case TaskKind::recv:
      return fmt::format("recv from {} slot {} into {}", peer, task.slot, target);
    case TaskKind::write:
      return fmt::format("write at {} {} -> {}", peer, source, target);
    case TaskKind::read:
      return fmt::format("read at {} {} -> {}", peer, source, target);
    case TaskKind::multicast:
      return fmt::format("multicast{} {} -> {}", group_text(task.object), source, target);
    case TaskKind::collect:
      return fmt::format("collect{} {}", group_text(task.object), target);
    case TaskKind::wait:
      return fmt::format("wait completions {} count {}", task.object, task.count);
    case TaskKind::wait_keys:
      return fmt::format("wait_keys{}{}{} into {}", keys_text(schedule, at),
                         task.counted ? " counted" : "", side_text(task.side), target);
    case TaskKind::enable:
      return fmt::format("enable queue {} count {}", task.object, task.count);
    case TaskKind::reduce:
      return fmt::format("reduce{} {} -> {}", side_text(task.side), source, target);
    case TaskKind::copy:
      return fmt::format("copy {} -> {}", source, target);
    case TaskKind::signal:
      return fmt::format("signal to {} slot {}{}", peer, task.slot, task.counted ? " counted" : "");
  }
  return "?";
}

std::string prefix_text(const Task& task) {
  std::string text;
  if (task.queue != 0) text += fmt::format("on {} ", task.queue);
  if (task.round != 0) text += fmt::format("round {} ", task.round);
  return text;
}

}  // namespace

const char* to_string(Buffer buffer) {
  constexpr std::array<const char*, kBufferKinds> names = {"-", "send", "receive", "scratch"};
  return names[static_cast<std::size_t>(buffer)];
}

const char* to_string(TaskKind kind) {
  constexpr std::array<const char*, kTaskKinds> names = {
      "send", "recv",      "write",  "read",   "multicast", "collect",
      "wait", "wait_keys", "enable", "reduce", "copy",      "signal"};
  return names[static_cast<std::size_t>(kind)];
}

const char* to_string(Side side) {
  constexpr std::array<const char*, 3> names = {"after", "before", "none"};
  return names[static_cast<std::size_t>(side)];
}

const char* to_string(QueueKind kind) {
  constexpr std::array<const char*, 5> names = {"free", "send", "receive", "management", "host"};
  return names[static_cast<std::size_t>(kind)];
}

const char* to_string(Channel channel) { return channel == Channel::data ? "data" : "cts"; }

std::string to_string(const BufferSlice& slice) {
  if (slice.empty()) return "-";
  std::string text = slice.block_count == 1
                         ? fmt::format("{}[{}]", to_string(slice.buffer), slice.first_block)
                         : fmt::format("{}[{}..{}]", to_string(slice.buffer), slice.first_block,
                                       slice.last_block());
  if (slice.parts == 1) return text;
  if (slice.part_last == slice.part_first + 1)
    return text + fmt::format("{{{}/{}}}", slice.part_first, slice.parts);
  return text + fmt::format("{{{}..{}/{}}}", slice.part_first, slice.part_last, slice.parts);
}

std::string task_text(const Schedule& schedule, TaskIndex task) {
  std::string text = action_text(schedule, task);
  const auto dependencies = schedule.dependencies(task);
  if (!dependencies.empty()) text += " after";
  for (TaskIndex before : dependencies) text += fmt::format(" {}", before);
  return text;
}

std::string to_text(const Schedule& schedule) {
  const Purpose& purpose = schedule.purpose();
  const Parameters& p = purpose.parameters;
  std::string text = fmt::format(
      "tutti-schedule 1\ncollective {}\nalgorithm {}\nranks {} rank {} root {}\n"
      "parameters ports={} radix={} segments={} chains={} ready={} handshake={}\nscratch {}\n",
      to_string(purpose.collective), purpose.algorithm, purpose.ranks, index(purpose.rank),
      index(purpose.root), p.ports, p.radix, p.segments, p.chains, p.ready ? 1 : 0,
      p.handshake ? 1 : 0, schedule.blocks(Buffer::scratch));
  for (std::size_t q = 0; q < schedule.queues().size(); ++q)
    text += fmt::format("queue {} {}\n", q, queue_text(schedule.queues()[q]));
  for (TaskIndex t = 0; t < schedule.tasks().size(); ++t)
    text +=
        fmt::format("task {} {}{}\n", t, prefix_text(schedule.tasks()[t]), task_text(schedule, t));
  return text + "end\n";
}

std::string describe(const Schedule& schedule, TaskIndex task) {
  return fmt::format("rank {} task {} ({})", tutti::index(schedule.rank()), task,
                     task_text(schedule, task));
}

}  // namespace tutti::schedule
