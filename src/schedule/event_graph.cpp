#include "schedule/event_graph.hpp"
#include "schedule/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::schedule {

namespace {

constexpr std::uint32_t kMessageBit = 0x8000'0000u;

bool sequential(QueueKind kind) { return kind == QueueKind::management || kind == QueueKind::host; }
bool in_order(QueueKind kind) { return kind != QueueKind::free; }

}  // namespace

EventGraph::EventGraph(const AllRanks& all, const Matching& matching)
    : all_(all), issued_(all.task_count()) {
  edges_.reserve(std::size_t{8} * all.task_count());
  find_issue_events();
  for (std::uint32_t r = 0; r < all_.ranks(); ++r) {
    add_own_edges(r);
    for (std::size_t q = 0; q < all_.at(r).queues().size(); ++q)
      add_queue_edges(r, static_cast<QueueIndex>(q));
    add_release_edges(r);
    count_completions(r);
  }
  add_message_edges(matching);
  for (const CountedQueue& queue : counted_) {
    if (queue.in_order) add_proof_in_order(queue);
  }
  index_edges();
}

/// A receive without dependencies has no issue event of its own: it is issued when its rank's call
/// begins (task.hpp).
void EventGraph::find_issue_events() {
  for (std::uint32_t r = 0; r < all_.ranks(); ++r) {
    const Schedule& schedule = all_.at(r);
    for (std::size_t q = 0; q < schedule.queues().size(); ++q) {
      const Queue& queue = schedule.queues()[q];
      const bool posts = !queue.held && !sequential(queue.kind);
      bool first = true;
      for (TaskIndex t : schedule.entries(static_cast<QueueIndex>(q))) {
        const Task& task = schedule.tasks()[t];
        const bool posted = posts && is_posted_receive(task.kind) && task.dependency_count == 0 &&
                            (first || queue.kind == QueueKind::free);
        first = first && posted;
        const GlobalTask global = all_.base(r) + t;
        issued_[global] = posted ? began(r) : 2 * global;
      }
    }
  }
}

void EventGraph::add(Event before, Event after, bool message) {
  if (before != after) edges_.push_back({before, after, message});
}

void EventGraph::add_own_edges(std::uint32_t rank) {
  const Schedule& schedule = all_.at(rank);
  for (TaskIndex t = 0; t < schedule.tasks().size(); ++t) {
    const GlobalTask task = all_.base(rank) + t;
    add(began(rank), issued(task));
    add(issued(task), completed(task));
    add(completed(task), ended(rank));
    for (TaskIndex before : schedule.dependencies(t))
      add(completed(all_.base(rank) + before), issued(task));
    if (issued(task) == began(rank)) add(began(rank), 2 * task);
  }
}

void EventGraph::add_queue_edges(std::uint32_t rank, QueueIndex queue) {
  const QueueKind kind = all_.at(rank).queues()[queue].kind;
  if (kind == QueueKind::free) return;
  const auto entries = all_.at(rank).entries(queue);
  for (std::size_t e = 1; e < entries.size(); ++e) {
    const GlobalTask before = all_.base(rank) + entries[e - 1];
    const GlobalTask after = all_.base(rank) + entries[e];
    add(issued(before), issued(after));
    add(completed(before), completed(after));
    if (sequential(kind)) add(completed(before), issued(after));
  }
}

void EventGraph::add_release_edges(std::uint32_t rank) {
  const Schedule& schedule = all_.at(rank);
  std::vector<std::uint32_t> released(schedule.queues().size());
  for (TaskIndex t = 0; t < schedule.tasks().size(); ++t) {
    const Task& task = schedule.tasks()[t];
    if (task.kind != TaskKind::enable) continue;
    const auto entries = schedule.entries(task.object);
    for (std::uint32_t n = 0; n < task.count; ++n) {
      const GlobalTask entry = all_.base(rank) + entries[released[task.object]++];
      add(completed(all_.base(rank) + t), issued(entry));
    }
  }
}

void EventGraph::add_message_edges(const Matching& matching) {
  for (const Delivery& d : matching.messages) {
    const bool counts = all_.task(d.sender).slot < kCtsSlots;
    add(issued(d.sender), completed(d.receiver), counts);
    if (all_.task(d.receiver).kind == TaskKind::recv)
      strict_edges_.push_back({issued(d.receiver), completed(d.sender), false});
  }
  for (const Delivery& d : matching.multicasts) add(issued(d.sender), completed(d.receiver), true);
}

void EventGraph::count_completions(std::uint32_t rank) {
  const Schedule& schedule = all_.at(rank);
  std::vector<CountedQueue> queues(schedule.completion_queues());
  std::vector<std::uint32_t> feeding(queues.size());
  for (std::size_t q = 0; q < schedule.queues().size(); ++q) {
    const Queue& queue = schedule.queues()[q];
    if (queue.completions == kNoIndex) continue;
    CountedQueue& counted = queues[queue.completions];
    counted.rank = rank;
    counted.in_order = feeding[queue.completions]++ == 0 && in_order(queue.kind);
    for (TaskIndex t : schedule.entries(static_cast<QueueIndex>(q)))
      counted.reporting.push_back(all_.base(rank) + t);
  }
  for (TaskIndex t = 0; t < schedule.tasks().size(); ++t) {
    const Task& task = schedule.tasks()[t];
    if (task.kind != TaskKind::wait) continue;
    std::vector<Threshold>& waits = queues[task.object].waits;
    const std::uint64_t before = waits.empty() ? 0 : waits.back().completions;
    waits.push_back({all_.base(rank) + t, before + task.count});
  }
  for (CountedQueue& queue : queues) {
    if (!queue.waits.empty()) counted_.push_back(std::move(queue));
  }
}

void EventGraph::add_proof_in_order(const CountedQueue& queue) {
  for (const Threshold& wait : queue.waits)
    add(completed(queue.reporting[wait.completions - 1]), completed(wait.wait));
}

void EventGraph::index_edges() {
  predecessor_offsets_.assign(event_count() + 1, 0);
  for (const Edge& edge : edges_) ++predecessor_offsets_[edge.after + 1];
  for (std::size_t e = 0; e < event_count(); ++e)
    predecessor_offsets_[e + 1] += predecessor_offsets_[e];
  predecessors_.resize(edges_.size());
  std::vector<std::uint32_t> next(predecessor_offsets_.begin(), predecessor_offsets_.end() - 1);
  for (const Edge& edge : edges_)
    predecessors_[next[edge.after]++] = edge.before | (edge.message ? kMessageBit : 0);
}

std::span<const std::uint32_t> EventGraph::predecessors(Event event) const {
  return std::span(predecessors_)
      .subspan(predecessor_offsets_[event],
               predecessor_offsets_[event + 1] - predecessor_offsets_[event]);
}

bool EventGraph::run(Findings& findings) {
  // Collects the successors of each event, and counts in `pending` its predecessors that have not
  // happened. The completion of a wait has one predecessor more: its completion queue must have
  // counted as many completions as the wait needs.
  std::vector<std::uint32_t> pending(event_count());
  std::vector<std::uint32_t> offsets(event_count() + 1);
  const auto for_each_edge = [&](const auto& visit) {
    for (const Edge& edge : edges_) visit(edge.before, edge.after);
    for (const Edge& edge : strict_edges_) visit(edge.before, edge.after);
  };
  for_each_edge([&](Event before, Event after) { ++offsets[before + 1], ++pending[after]; });
  for (std::size_t e = 0; e < event_count(); ++e) offsets[e + 1] += offsets[e];
  std::vector<Event> successors(offsets.back());
  std::vector<std::uint32_t> next(offsets.begin(), offsets.end() - 1);
  for_each_edge([&](Event before, Event after) { successors[next[before]++] = after; });

  std::vector<std::uint32_t> reports_to(all_.task_count(), kNoTask);
  std::vector<std::uint64_t> counts(counted_.size());
  std::vector<std::size_t> next_wait(counted_.size());
  for (std::uint32_t c = 0; c < counted_.size(); ++c) {
    for (GlobalTask task : counted_[c].reporting) reports_to[task] = c;
    for (const Threshold& wait : counted_[c].waits) ++pending[completed(wait.wait)];
  }

  order_.clear();
  for (Event e = 0; e < event_count(); ++e) {
    if (pending[e] == 0) order_.push_back(e);
  }
  const auto happen = [&](Event event) {
    if (--pending[event] == 0) order_.push_back(event);
  };
  for (std::size_t at = 0; at < order_.size(); ++at) {
    const Event event = order_[at];
    for (std::uint32_t s = offsets[event]; s < offsets[event + 1]; ++s) happen(successors[s]);
    if (!is_task_event(event) || event % 2 == 0) continue;
    const std::uint32_t c = reports_to[task_of(event)];
    if (c == kNoTask) continue;
    ++counts[c];
    const std::vector<Threshold>& waits = counted_[c].waits;
    while (next_wait[c] < waits.size() && waits[next_wait[c]].completions <= counts[c])
      happen(completed(waits[next_wait[c]++].wait));
  }
  if (order_.size() < event_count()) {
    explain_standstill(pending, findings);
    return false;
  }
  positions_.resize(event_count());
  for (std::uint32_t at = 0; at < order_.size(); ++at) positions_[order_[at]] = at;
  return true;
}

/// Finds a predecessor of `event` that the run has not reached.
Event EventGraph::blocker_of(Event event, const std::vector<std::uint32_t>& pending) const {
  for (const std::vector<Edge>* edges : {&edges_, &strict_edges_}) {
    for (const Edge& edge : *edges) {
      if (edge.after == event && pending[edge.before] > 0) return edge.before;
    }
  }
  for (const CountedQueue& queue : counted_) {
    const bool waits = std::any_of(queue.waits.begin(), queue.waits.end(),
                                   [&](const Threshold& w) { return completed(w.wait) == event; });
    if (!waits) continue;
    for (GlobalTask task : queue.reporting) {
      if (pending[completed(task)] > 0) return completed(task);
    }
  }
  return event;
}

std::string EventGraph::name_of(Event event) const {
  if (is_task_event(event)) return all_.describe(task_of(event));
  return fmt::format("the end of rank {}", (event - 2 * all_.task_count()) % all_.ranks());
}

void EventGraph::explain_standstill(const std::vector<std::uint32_t>& pending,
                                    Findings& findings) const {
  Event at = 0;
  while (pending[at] == 0) ++at;
  std::vector<bool> seen(event_count());
  for (; !seen[at]; at = blocker_of(at, pending)) seen[at] = true;

  // The event `at` is on a cycle. The loop walks around the cycle once more and collects each task
  // on it once.
  std::vector<GlobalTask> circle;
  const Event first = at;
  do {
    if (is_task_event(at) && (circle.empty() || circle.back() != task_of(at)))
      circle.push_back(task_of(at));
    at = blocker_of(at, pending);
  } while (at != first);
  if (circle.size() > 1 && circle.back() == circle.front()) circle.pop_back();

  constexpr std::size_t kMaxNamed = 8;
  std::string chain;
  for (std::size_t c = 1; c < std::min(circle.size(), kMaxNamed); ++c)
    chain += fmt::format("{} {}", c == 1 ? "" : ", which waits for", all_.describe(circle[c]));
  if (circle.size() > kMaxNamed) chain += fmt::format(", and {} more", circle.size() - kMaxNamed);
  findings.add(Fault::deadlock, circle.front(),
               fmt::format("waits for{}, which waits for it: post the receives "
                           "before the tasks that wait for them, or drop one of these dependencies",
                           chain.empty() ? " itself" : chain));
}

std::uint32_t EventGraph::longest_chain() const {
  std::vector<std::uint32_t> depth(event_count());
  std::uint32_t longest = 0;
  for (Event event : order_) {
    for (std::uint32_t p : predecessors(event)) {
      const std::uint32_t through = depth[p & ~kMessageBit] + ((p & kMessageBit) != 0 ? 1 : 0);
      depth[event] = std::max(depth[event], through);
    }
    longest = std::max(longest, depth[event]);
  }
  return longest;
}

std::vector<bool> EventGraph::always_before(std::span<const std::pair<Event, Event>> pairs) const {
  std::vector<bool> answers(pairs.size());
  std::vector<Event> firsts;
  for (const auto& [first, second] : pairs) firsts.push_back(first);
  std::sort(firsts.begin(), firsts.end());
  firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());

  // Takes the first events of the pairs, 64 at a time. For every event of the graph, 64 bits record
  // which of these first events precede it; the bits are propagated along the edges.
  std::vector<std::uint64_t> reached(event_count());
  for (std::size_t batch = 0; batch < firsts.size(); batch += 64) {
    const auto batch_begin = firsts.begin() + static_cast<std::ptrdiff_t>(batch);
    const auto batch_end = std::min(batch_begin + 64, firsts.end());
    std::fill(reached.begin(), reached.end(), 0);
    for (auto f = batch_begin; f != batch_end; ++f)
      reached[*f] |= std::uint64_t{1} << (f - batch_begin);
    for (Event event : order_) {
      for (std::uint32_t p : predecessors(event)) reached[event] |= reached[p & ~kMessageBit];
    }
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      const auto f = std::lower_bound(batch_begin, batch_end, pairs[p].first);
      if (f == batch_end || *f != pairs[p].first || pairs[p].first == pairs[p].second) continue;
      answers[p] = (reached[pairs[p].second] >> (f - batch_begin) & 1) != 0;
    }
  }
  return answers;
}

void EventGraph::add_proofs_of_waits() {
  for (bool added = true; added;) {
    added = false;
    for (const CountedQueue& queue : counted_) {
      if (!queue.in_order) added = prove(queue) || added;
    }
    if (added) index_edges();
  }
}

/// Adds the edges that follow from waits on `queue`. If fewer than n other tasks can complete
/// before task t, a wait for n completions cannot end before t completes.
bool EventGraph::prove(const CountedQueue& queue) {
  const std::vector<GlobalTask>& tasks = queue.reporting;
  std::vector<std::pair<Event, Event>> pairs;
  for (GlobalTask first : tasks) {
    for (GlobalTask second : tasks) pairs.push_back({completed(first), completed(second)});
  }
  for (const Threshold& wait : queue.waits) {
    for (GlobalTask second : tasks) pairs.push_back({completed(wait.wait), completed(second)});
    for (GlobalTask first : tasks) pairs.push_back({completed(first), completed(wait.wait)});
  }
  const std::vector<bool> before = always_before(pairs);
  const std::size_t n = tasks.size();
  bool added = false;
  for (std::size_t w = 0; w < queue.waits.size(); ++w) {
    const std::size_t base = n * n + 2 * n * w;
    for (std::size_t t = 0; t < n; ++t) {
      if (before[base + n + t]) continue;  // the graph contains this order already
      std::uint64_t others = 0;
      for (std::size_t u = 0; u < n; ++u)
        others += u != t && !before[t * n + u] && !before[base + u] ? 1 : 0;
      if (others >= queue.waits[w].completions) continue;
      add(completed(tasks[t]), completed(queue.waits[w].wait));
      added = true;
    }
  }
  return added;
}

EventGraph::Local::Local(const EventGraph& graph, std::uint32_t rank)
    : graph_(graph), rank_(rank), words_((graph.all_.tasks_of(rank) + 63) / 64) {
  const AllRanks& all = graph.all_;
  const std::uint32_t tasks = all.tasks_of(rank);
  const Event first = 2 * all.base(rank);
  rows_.resize(std::size_t{2} * tasks * words_);

  std::vector<Event> own(2 * tasks);
  for (std::uint32_t e = 0; e < own.size(); ++e) own[e] = first + e;
  std::sort(own.begin(), own.end(),
            [&](Event a, Event b) { return graph.position(a) < graph.position(b); });
  for (Event event : own) {
    std::uint64_t* into = rows_.data() + std::size_t{event - first} * words_;
    for (std::uint32_t p : graph.predecessors(event)) {
      const Event before = p & ~kMessageBit;
      if (before < first || before >= first + 2 * tasks) continue;
      const std::uint64_t* from = row(before);
      for (std::uint32_t w = 0; w < words_; ++w) into[w] |= from[w];
    }
    const std::uint32_t local = (event - first) / 2;
    if (event % 2 == 1) into[local / 64] |= std::uint64_t{1} << (local % 64);
  }
}

const std::uint64_t* EventGraph::Local::row(Event event) const {
  return rows_.data() + std::size_t{event - 2 * graph_.all_.base(rank_)} * words_;
}

bool EventGraph::Local::before(GlobalTask first, GlobalTask second) const {
  const Event issue = graph_.issued(second);
  // A receive without dependencies is issued when its rank's call begins, so no task precedes it.
  if (!graph_.is_task_event(issue)) return false;
  const std::uint32_t bit = first - graph_.all_.base(rank_);
  return (row(issue)[bit / 64] >> (bit % 64) & 1) != 0;
}

}  // namespace tutti::schedule
