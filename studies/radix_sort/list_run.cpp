#include "studies/radix_sort/list_run.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "collectives/registry.hpp"
#include "schedule/core_direct/core_direct.hpp"
#include "schedule/text.hpp"

namespace tutti::simulation {

using schedule::Task;
using schedule::TaskIndex;
using schedule::TaskKind;
using sim::Event;
using sim::EventKind;
using sim::Picoseconds;

namespace {

constexpr EventKind kVisible =
    EventKind{20};  // event: a message arrives at a host (argument: parity of the call, and task)
constexpr EventKind kDoorbell = EventKind{21};  // event: a task list is posted to an interface
// Event: the completion of an interface's task list reaches the host.
constexpr EventKind kOver = EventKind{22};

Picoseconds time_of(Nanoseconds duration) { return sim::from_nanoseconds(duration); }

std::uint64_t visible(std::uint32_t parity, TaskIndex task) {
  return std::uint64_t{parity} << 32 | task;
}

}  // namespace

const char* to_string(ListRunner runner) { return runner == ListRunner::host ? "host" : "nic"; }

ListRun::ListRun(sim::EventQueue& queue, MessageNetwork& network, RankWaker& waker, ListSpec spec)
    : queue_(queue),
      network_(network),
      waker_(waker),
      spec_(std::move(spec)),
      copy_(spec_.costs.copy_bits_per_second) {}

Result<std::unique_ptr<ListRun>> ListRun::create(sim::EventQueue& queue, MessageNetwork& network,
                                                 RankWaker& waker, ListSpec spec) {
  std::unique_ptr<ListRun> run(new ListRun(queue, network, waker, std::move(spec)));
  if (Status built = run->build(); !built) return built;
  return run;
}

Status ListRun::build() {
  const auto schedules = collectives::build_all(spec_.purpose);
  if (!schedules) return schedules.status();
  participants_.resize(spec_.members.size());
  number_.resize(1 + *std::max_element(spec_.members.begin(), spec_.members.end()));
  nic_free_.resize(1 + network_.host_of(static_cast<std::uint32_t>(number_.size() - 1)));
  for (std::uint32_t i = 0; i < participants_.size(); ++i) {
    participants_[i].rank = spec_.members[i];
    number_[spec_.members[i]] = i;
    if (!by_nic()) {
      if (Status done = prepare(participants_[i], (*schedules)[i]); !done) return done;
      continue;
    }
    const auto lowered =
        lower_to_core_direct((*schedules)[i], {.buffer_per_block = spec_.buffer_per_block});
    if (!lowered) return lowered.status();
    if (Status done = prepare(participants_[i], *lowered); !done) return done;
  }
  return {};
}

Status ListRun::prepare(Participant& one, const schedule::Schedule& schedule) {
  one.schedule = schedule;
  const std::span<const Task> tasks = one.schedule.tasks();
  const auto shape = schedule::Shape::uniform(spec_.block_bytes);
  one.filled.resize(tasks.size());
  if (Status filled = fill(one.schedule, shape, one.filled); !filled) return filled;
  for (auto& flags : one.arrived) flags.resize(tasks.size());
  if (!by_nic()) return {};
  one.posting = time_of(spec_.costs.post) * static_cast<std::int64_t>(tasks.size());
  for (TaskIndex t = 0; t < tasks.size(); ++t) {
    const schedule::Queue& queue = one.schedule.queues()[tasks[t].queue];
    if (one.filled[t].transfer != schedule::Transfer::eager) {
      return failure(Code::unsupported,
                     "{} has {} bytes, but a simulated network interface can run only lists of "
                     "eager messages: use at most {} bytes per message",
                     describe(one.schedule, t), bytes_of(one, t), shape.eager_limit_bytes);
    }
    if (tasks[t].kind == TaskKind::copy && !queue.held) one.posting += copy_time(bytes_of(one, t));
    if (queue.kind == schedule::QueueKind::management) one.managed.push_back(t);
  }
  return {};
}

Picoseconds ListRun::begin(std::uint32_t rank, Picoseconds now) {
  Participant& one = at(rank);
  // Two sets of arrival marks serve the calls in turn. Messages of the next call may arrive from
  // now on, so the set of the previous call is cleared for them.
  auto& last = one.arrived[one.calls % 2];
  std::fill(last.begin(), last.end(), false);
  ++one.calls;
  one.board.reset(one.schedule);
  one.seen.clear();
  one.managed_done = 0;
  one.done = one.over = one.reported = false;
  if (!by_nic()) return carry_out_by_host(one, now);
  const Picoseconds free = now + one.posting;
  queue_.push({free, event_key(kDoorbell, rank), 0});
  return free;
}

void ListRun::send(const Participant& one, TaskIndex task, Picoseconds when) {
  const Task& what = one.schedule.tasks()[task];
  NetworkMessage message;
  message.from = one.rank;
  message.to = participants_[index(what.peer)].rank;
  message.bytes = bytes_of(one, task);
  message.call = one.calls;
  message.slot = what.slot;
  message.task = task;
  network_.send(when, message);
}

/// Carries out, one after the other, all tasks that the host may issue now.
Picoseconds ListRun::carry_out_by_host(Participant& one, Picoseconds now) {
  for (TaskIndex task = 0; one.board.next(task);) {
    const TaskKind kind = one.schedule.tasks()[task].kind;
    if (kind == TaskKind::recv) {
      if (has_arrived(one, task)) one.seen.push_back(task);
      continue;
    }
    if (schedule::sends_message(kind)) {
      now += time_of(spec_.costs.host.message);
      ++counts_.host_messages;
      send(one, task, now);
    } else {
      now += copy_time(bytes_of(one, task));
    }
    one.board.complete(task);
  }
  one.done = one.board.done();
  return now;
}

/// Returns the time that the interface needs for the waits and enables that the task board has
/// carried out since the previous call of this function.
Picoseconds ListRun::charge_waits(Participant& one) {
  const std::size_t before = one.managed_done;
  while (one.managed_done < one.managed.size() &&
         one.board.is_complete(one.managed[one.managed_done])) {
    ++one.managed_done;
  }
  const std::size_t count = one.managed_done - before;
  counts_.nic_waits += count;
  return time_of(spec_.costs.task) * static_cast<std::int64_t>(count);
}

void ListRun::carry_out_by_nic(Participant& one, Picoseconds now) {
  Picoseconds& free = nic_free_[network_.host_of(one.rank)];
  Picoseconds when = std::max(now, free);
  bool host_is_needed = false;
  for (TaskIndex task = 0; one.board.next(task);) {
    const Task& what = one.schedule.tasks()[task];
    when += charge_waits(one);
    if (what.kind == TaskKind::recv) {
      if (has_arrived(one, task)) one.board.complete(task);
    } else if (schedule::sends_message(what.kind)) {
      when += time_of(spec_.costs.task);
      ++counts_.nic_messages;
      send(one, task, when);
    } else if (!one.schedule.queues()[what.queue].held) {
      one.board.complete(task);  // the host carried out this task before it posted the list
    } else {
      one.copies.push_back(task);
      host_is_needed = true;
    }
  }
  when += charge_waits(one);
  free = when;
  const bool over = one.board.done() && !std::exchange(one.reported, true);
  if (over || host_is_needed) {
    queue_.push({when + time_of(spec_.costs.completion), event_key(kOver, one.rank), over});
  }
}

bool ListRun::has_news(std::uint32_t rank) const {
  const Participant& one = at(rank);
  return one.over || !one.seen.empty() || !one.copies.empty();
}

Picoseconds ListRun::look(std::uint32_t rank, Picoseconds now) {
  Participant& one = at(rank);
  ++counts_.looks;
  now += time_of(spec_.costs.host.poll);
  if (!by_nic()) {
    while (!one.seen.empty()) {
      const std::vector<TaskIndex> seen = std::exchange(one.seen, {});
      now += time_of(spec_.costs.host.message) * static_cast<std::int64_t>(seen.size());
      for (const TaskIndex task : seen) one.board.complete(task);
      now = carry_out_by_host(one, now);
    }
    return now;
  }
  // Eager messages stay in the interface's buffers until the host polls [Inozemtsev12] 4.1.
  if (one.over) {
    one.over = false;
    one.done = true;
    return now + time_of(spec_.costs.host.message) +
           copy_time(spec_.block_bytes * participants_.size());
  }
  if (one.copies.empty()) return now;
  for (const TaskIndex task : std::exchange(one.copies, {})) {
    now += copy_time(bytes_of(one, task));
    one.board.complete(task);
  }
  queue_.push({now, event_key(kDoorbell, rank), 0});
  return now;
}

/// Marks a message as arrived. A message may arrive before its receiver begins the call, but not
/// before the receiver has begun the previous call.
void ListRun::arrive(Participant& one, std::uint32_t parity, TaskIndex task, Picoseconds now) {
  one.arrived[parity][task] = true;
  if (one.calls % 2 != parity || !one.board.is_open(task)) return;
  if (by_nic()) {
    one.board.complete(task);
    carry_out_by_nic(one, now);
  } else {
    one.seen.push_back(task);
    waker_.wake(one.rank);
  }
}

void ListRun::delivered(const NetworkMessage& message, Picoseconds now) {
  Participant& one = at(message.to);
  const auto place = one.schedule.arrival_of(rank_of(number_[message.from]), message.slot);
  const TaskIndex task = one.schedule.arrivals()[*place].task;
  const std::uint32_t parity = message.call % 2;
  if (by_nic()) return arrive(one, parity, task, now);
  queue_.push({now + time_of(spec_.costs.completion), event_key(kVisible, message.to),
               visible(parity, task)});
}

void ListRun::left(const NetworkMessage& message, Picoseconds now) {
  // Only a send by an interface completes when its message has left. A send by a host is complete
  // at once, because the host copies the message.
  if (!by_nic()) return;
  Participant& one = at(message.from);
  one.board.complete(message.task);
  carry_out_by_nic(one, now);
}

bool ListRun::handle(const Event& event) {
  const std::uint32_t rank = target_of(event);
  if (kind_of(event) == kVisible) {
    arrive(at(rank), static_cast<std::uint32_t>(event.argument >> 32),
           static_cast<TaskIndex>(event.argument), event.time);
  } else if (kind_of(event) == kDoorbell) {
    carry_out_by_nic(at(rank), event.time);
  } else if (kind_of(event) == kOver) {
    if (event.argument != 0) at(rank).over = true;
    waker_.wake(rank);
  } else {
    return false;
  }
  return true;
}

}  // namespace tutti::simulation
