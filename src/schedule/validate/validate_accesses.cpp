// Phase 4 of the validator: checks that conflicting accesses are ordered.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "schedule/data_check.hpp"
#include "schedule/text.hpp"

namespace tutti::schedule {

namespace {

/// An access of one task to one cell, which lasts from issue to completion.
struct Use {
  std::uint32_t cell;
  GlobalTask task;
  bool writes;
};

class AccessCheck {
 public:
  AccessCheck(const AllRanks& all, const CellSpace& cells, const EventGraph& graph,
              Findings& findings)
      : all_(all), cells_(cells), graph_(graph), findings_(findings) {}

  void run() {
    list_uses();
    locals_.resize(all_.ranks());
    for (std::size_t first = 0; first < uses_.size();) {
      std::size_t last = first;
      while (last < uses_.size() && uses_[last].cell == uses_[first].cell) ++last;
      check_cell(std::span(uses_).subspan(first, last - first));
      first = last;
    }
    check_over_all_ranks();
  }

 private:
  struct Conflict {
    Use earlier;
    Use later;
  };

  void list_uses() {
    for (GlobalTask t = 0; t < all_.task_count(); ++t) {
      const Task& task = all_.task(t);
      const std::uint32_t me = all_.rank_of_task(t);
      const bool reads_remote = task.kind == TaskKind::read;
      const bool writes_remote = task.kind == TaskKind::write;
      const bool moves_nothing = task.kind == TaskKind::copy && same_cells(me, task);
      if (moves_nothing) continue;
      if (reads_source(task.kind) || reads_remote)
        list(reads_remote ? index(task.peer) : me, task.source, t, false);
      if (writes_target(task.kind) || writes_remote)
        list(writes_remote ? index(task.peer) : me, task.target, t, true);
    }
    // Sorts by cell, then by the position at which the task is issued in the run. Tasks with equal
    // positions keep the order of the task list, because the sort is stable.
    std::stable_sort(uses_.begin(), uses_.end(), [&](const Use& a, const Use& b) {
      return a.cell != b.cell ? a.cell < b.cell : position(a.task) < position(b.task);
    });
  }

  void list(std::uint32_t rank, const BufferSlice& slice, GlobalTask task, bool writes) {
    cells_.for_each(rank, slice, [&](std::uint32_t cell) {
      uses_.push_back({cell, task, writes});
    });
  }

  bool same_cells(std::uint32_t rank, const Task& task) const {
    std::uint32_t source = 0;
    std::uint32_t target = 0;
    cells_.for_each(rank, task.source.part(0, 1), [&](std::uint32_t cell) { source = cell; });
    cells_.for_each(rank, task.target.part(0, 1), [&](std::uint32_t cell) { target = cell; });
    return source == target;
  }

  std::uint32_t position(GlobalTask task) const { return graph_.position(graph_.issued(task)); }

  /// Each access must follow the last write, and a write must also follow every read since that
  /// write. An access lasts from issue to completion, so these orders imply the order of all other
  /// pairs.
  void check_cell(std::span<const Use> uses) {
    std::size_t last_write = uses.size();
    std::size_t since = 0;
    for (std::size_t u = 0; u < uses.size(); ++u) {
      if (last_write < uses.size()) require(uses[last_write], uses[u]);
      if (!uses[u].writes) continue;
      for (std::size_t r = since; r < u; ++r) {
        if (!uses[r].writes) require(uses[r], uses[u]);
      }
      last_write = u;
      since = u + 1;
    }
  }

  void require(const Use& earlier, const Use& later) {
    if (earlier.task == later.task) return;
    const std::uint32_t rank = all_.rank_of_task(earlier.task);
    if (rank == all_.rank_of_task(later.task)) {
      if (!locals_[rank]) locals_[rank].emplace(graph_, rank);
      if (locals_[rank]->before(earlier.task, later.task)) return;
    }
    unsettled_.push_back({earlier, later});
  }

  /// Checks the pairs of accesses whose order does not follow from the tasks of one rank alone:
  /// messages through other ranks may order the two accesses.
  void check_over_all_ranks() {
    if (unsettled_.empty()) return;
    std::vector<std::pair<Event, Event>> pairs;
    pairs.reserve(unsettled_.size());
    for (const Conflict& c : unsettled_)
      pairs.emplace_back(graph_.completed(c.earlier.task), graph_.issued(c.later.task));
    const std::vector<bool> before = graph_.always_before(pairs);
    for (std::size_t c = 0; c < unsettled_.size() && !findings_.full(); ++c) {
      if (!before[c] && !reported(unsettled_[c])) report(unsettled_[c]);
    }
  }

  bool reported(const Conflict& conflict) {
    const std::pair pair(conflict.earlier.task, conflict.later.task);
    const bool seen = std::find(reported_.begin(), reported_.end(), pair) != reported_.end();
    if (!seen) reported_.push_back(pair);
    return seen;
  }

  void report(const Conflict& conflict) {
    const auto verb = [](const Use& use) { return use.writes ? "writes" : "reads"; };
    findings_.add(
        Fault::race, conflict.later.task,
        fmt::format("{} {}, which {} {}, without an order between the two: make it wait for task "
                    "{} of rank {}",
                    verb(conflict.later),
                    cells_.name(cells_.rank_of_cell(conflict.later.cell), conflict.later.cell),
                    all_.describe(conflict.earlier.task), verb(conflict.earlier),
                    all_.local(conflict.earlier.task), all_.rank_of_task(conflict.earlier.task)));
  }

  const AllRanks& all_;
  const CellSpace& cells_;
  const EventGraph& graph_;
  Findings& findings_;
  std::vector<Use> uses_;
  std::vector<std::optional<EventGraph::Local>> locals_;
  std::vector<Conflict> unsettled_;
  std::vector<std::pair<GlobalTask, GlobalTask>> reported_;
};

/// Checks that each one-sided access happens after the begin and before the end of the peer's call
/// and, with `receives_first`, that each multicast is sent after its receives are posted.
void check_times(const AllRanks& all, const EventGraph& graph, const Matching& matching,
                 const ValidateOptions& options, Findings& findings) {
  std::vector<std::pair<Event, Event>> pairs;
  std::vector<GlobalTask> tasks;
  for (GlobalTask t = 0; t < all.task_count(); ++t) {
    const Task& task = all.task(t);
    if (task.kind != TaskKind::write && task.kind != TaskKind::read) continue;
    pairs.emplace_back(graph.began(index(task.peer)), graph.issued(t));
    pairs.emplace_back(graph.completed(t), graph.ended(index(task.peer)));
    tasks.insert(tasks.end(), 2, t);
  }
  if (options.receives_first) {
    for (const Delivery& d : matching.multicasts) {
      pairs.emplace_back(graph.issued(d.receiver), graph.issued(d.sender));
      tasks.push_back(d.sender);
    }
  }
  if (pairs.empty()) return;
  const std::vector<bool> before = graph.always_before(pairs);
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    if (before[p]) continue;
    const Task& task = all.task(tasks[p]);
    if (task.kind == TaskKind::multicast) {
      findings.add(Fault::early, tasks[p],
                   "may be sent before all its receivers have posted: precede it by a barrier");
    } else if (pairs[p].second == graph.issued(tasks[p])) {
      findings.add(Fault::early, tasks[p],
                   fmt::format("may access rank {}'s memory before that rank has begun: wait for a "
                               "signal from it first",
                               index(task.peer)));
    } else {
      findings.add(Fault::early, tasks[p],
                   fmt::format("may access rank {}'s memory after that rank has ended: signal it "
                               "afterwards and let it wait for the signal",
                               index(task.peer)));
    }
  }
}

}  // namespace

void check_accesses(const AllRanks& all, const CellSpace& cells, const EventGraph& graph,
                    const Matching& matching, const ValidateOptions& options, Findings& findings) {
  AccessCheck(all, cells, graph, findings).run();
  if (findings.none()) check_times(all, graph, matching, options, findings);
}

}  // namespace tutti::schedule
