#include "studies/traffic/schedule_plan.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "schedule/shape.hpp"
#include "schedule/text.hpp"

namespace tutti::traffic {
namespace {

using schedule::Schedule;
using schedule::Task;
using schedule::TaskIndex;
using schedule::TaskKind;

/// Identifies a message until the message has a position in the plan.
using Draft = std::uint32_t;

struct Drafted {
  sim::Message message;
  std::vector<Draft> needs;
  std::uint32_t missing_needs = 0;
  std::vector<Draft> dependents;
  sim::MessageIndex added = 0;
};

class Planner {
 public:
  Planner(std::span<const Schedule> schedules, std::uint64_t block_bytes)
      : schedules_(schedules), shape_(schedule::Shape::uniform(block_bytes)) {}

  Result<sim::MessagePlan> plan() {
    for (const Schedule& one : schedules_) {
      if (const Status drafted = draft_messages(one); !drafted) return drafted;
    }
    for (const Schedule& one : schedules_) {
      if (const Status found = find_needs(one); !found) return found;
    }
    return in_order();
  }

 private:
  /// Key of a message: source, target and match slot.
  using Name = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

  static bool sends(const Task& task) {
    return schedule::sends_message(task.kind) || task.kind == TaskKind::multicast;
  }

  Status refuse(const Schedule& in, TaskIndex at) const {
    return failure(Code::unsupported,
                   "{} cannot be part of a message plan: build the schedule without it",
                   describe(in, at));
  }

  Status draft_messages(const Schedule& in) {
    const std::span<const Task> tasks = in.tasks();
    for (const schedule::Queue& queue : in.queues()) {
      if (queue.held || queue.kind != schedule::QueueKind::free) {
        return failure(
            Code::unsupported,
            "rank {} has a queue of the kind '{}' ({}), but a message plan needs queues of the "
            "kind 'free' that are not held: make the plan before the schedule is lowered",
            index(in.rank()), to_string(queue.kind), queue.held ? "held" : "not held");
      }
    }
    first_drafts_.push_back(static_cast<Draft>(drafts_.size()));
    for (TaskIndex at = 0; at < tasks.size(); ++at) {
      const Task& task = tasks[at];
      if (task.kind == TaskKind::write || task.kind == TaskKind::read ||
          task.kind == TaskKind::wait || task.kind == TaskKind::enable) {
        return refuse(in, at);
      }
      if (!sends(task)) continue;
      std::uint64_t bytes = 0;
      if (!task.source.empty()) {
        const auto extent = resolve(task.source, shape_);
        if (!extent) return extent.status();
        bytes = extent->size_bytes;
      }
      const bool to_all = task.kind == TaskKind::multicast;
      const std::uint32_t from = index(in.rank());
      const std::uint32_t to = to_all ? sim::kAllRanks : index(task.peer);
      const auto draft = static_cast<Draft>(drafts_.size());
      if (!to_all) by_name_.emplace(Name{from, to, task.slot}, draft);
      drafts_.push_back({{from, to, bytes}, {}, 0, {}, 0});
    }
    return {};
  }

  /// Adds to `needs` the message that task `at` receives: the message from `source` with the match
  /// slot `slot`.
  Status take(const Schedule& in, TaskIndex at, std::uint32_t source, std::uint32_t slot,
              std::vector<Draft>& needs) const {
    const auto found = by_name_.find({source, index(in.rank()), slot});
    if (found == by_name_.end()) {
      return failure(Code::invalid_argument, "no task sends the message that {} waits for",
                     describe(in, at));
    }
    needs.push_back(found->second);
    return {};
  }

  /// Finds the messages that must have arrived before each task ends. A message that the task
  /// itself receives is one of them.
  Status find_needs(const Schedule& in) {
    const std::span<const Task> tasks = in.tasks();
    std::vector<std::vector<Draft>> complete(tasks.size());
    std::vector<bool> collects(tasks.size());
    Draft draft = first_drafts_[index(in.rank())];
    for (TaskIndex at = 0; at < tasks.size(); ++at) {
      const Task& task = tasks[at];
      std::vector<Draft> needs;
      bool after_collect = false;
      for (const TaskIndex before : in.dependencies(at)) {
        needs.insert(needs.end(), complete[before].begin(), complete[before].end());
        after_collect = after_collect || collects[before];
      }
      std::sort(needs.begin(), needs.end());
      needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
      if (sends(task)) {
        if (after_collect) return refuse(in, at);
        drafts_[draft++].needs = needs;
      } else if (task.kind == TaskKind::recv) {
        const Status taken = take(in, at, index(task.peer), task.slot, needs);
        if (!taken) return taken;
      }
      for (const schedule::Key& key : in.keys(at)) {
        const Status taken = take(in, at, index(key.source), key.slot, needs);
        if (!taken) return taken;
      }
      collects[at] = after_collect || task.kind == TaskKind::collect;
      complete[at] = std::move(needs);
    }
    return {};
  }

  /// Adds all messages to the plan, each after the messages that it needs.
  Result<sim::MessagePlan> in_order() {
    sim::MessagePlan plan(static_cast<std::uint32_t>(schedules_.size()));
    std::deque<Draft> possible;
    for (Draft draft = 0; draft < drafts_.size(); ++draft) {
      Drafted& one = drafts_[draft];
      one.missing_needs = static_cast<std::uint32_t>(one.needs.size());
      for (const Draft need : one.needs) drafts_[need].dependents.push_back(draft);
      if (one.missing_needs == 0) possible.push_back(draft);
    }
    std::size_t added = 0;
    for (; !possible.empty(); possible.pop_front(), ++added) {
      Drafted& one = drafts_[possible.front()];
      std::vector<sim::MessageIndex> needs;
      for (const Draft need : one.needs) needs.push_back(drafts_[need].added);
      one.added = plan.add(one.message, needs);
      for (const Draft dependent : one.dependents) {
        if (--drafts_[dependent].missing_needs == 0) possible.push_back(dependent);
      }
    }
    if (added == drafts_.size()) return plan;
    return failure(Code::invalid_argument, "{} of {} messages wait for each other in a cycle",
                   drafts_.size() - added, drafts_.size());
  }

  std::span<const Schedule> schedules_;
  schedule::Shape shape_;
  std::vector<Drafted> drafts_;
  std::vector<Draft> first_drafts_;
  std::map<Name, Draft> by_name_;
};

}  // namespace

Result<sim::MessagePlan> plan_of(std::span<const schedule::Schedule> schedules,
                                 std::uint64_t block_bytes) {
  return Planner(schedules, block_bytes).plan();
}

}  // namespace tutti::traffic
