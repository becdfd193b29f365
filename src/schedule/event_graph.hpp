// The events of all ranks' schedules, and the order between these events that holds in every legal
// run.
//
// The events of a task are its issue and its completion; those of a rank are the begin and the end
// of its call. A receive without dependencies is issued when its rank's call begins.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schedule/validate/validate_parts.hpp"

namespace tutti::schedule {

using Event = std::uint32_t;

class EventGraph {
 public:
  EventGraph(const AllRanks& all, const Matching& matching);

  Event issued(GlobalTask task) const { return issued_[task]; }
  Event completed(GlobalTask task) const { return 2 * task + 1; }
  Event began(std::uint32_t rank) const { return 2 * all_.task_count() + rank; }
  Event ended(std::uint32_t rank) const { return began(rank) + all_.ranks(); }
  std::uint32_t event_count() const { return 2 * (all_.task_count() + all_.ranks()); }

  /// Runs the schedules once under the strictest protocol, in which a send completes only after its
  /// receive is posted. If the run deadlocks, adds a finding that names a cycle of waiting tasks,
  /// and returns false.
  bool run(Findings& findings);
  /// The events in the order of the run, and the position of each event in this order. Valid after
  /// `run`.
  std::span<const Event> order() const { return order_; }
  std::uint32_t position(Event event) const { return positions_[event]; }

  /// Adds the edges that follow from waits on queues that complete out of order, until no new edge
  /// is found. The caller must call `run` first.
  void add_proofs_of_waits();

  /// For each pair of events, true if `first` happens before `second` in every run.
  std::vector<bool> always_before(std::span<const std::pair<Event, Event>> pairs) const;
  /// The order between events that follows from the tasks of one rank alone.
  class Local;

  /// The largest number of messages along any path through the graph.
  std::uint32_t longest_chain() const;

 private:
  friend class Local;

  struct Edge {
    Event before;
    Event after;
    bool message;  ///< true if a message travels along this edge
  };
  /// A wait, and the number of completions after which it ends. Completions are counted from the
  /// start of the call.
  struct Threshold {
    GlobalTask wait;
    std::uint64_t completions;
  };
  /// A completion queue of one rank, with the tasks whose completions it counts.
  struct CountedQueue {
    std::uint32_t rank;
    std::vector<GlobalTask> reporting;
    std::vector<Threshold> waits;
    /// True if the completion queue counts the tasks of one queue only, and this queue completes
    /// its tasks in order.
    bool in_order;
  };

  void find_issue_events();
  void add(Event before, Event after, bool message = false);
  void add_own_edges(std::uint32_t rank);
  void add_queue_edges(std::uint32_t rank, QueueIndex queue);
  void add_release_edges(std::uint32_t rank);
  void add_message_edges(const Matching& matching);
  void count_completions(std::uint32_t rank);
  void add_proof_in_order(const CountedQueue& queue);
  bool prove(const CountedQueue& queue);
  void index_edges();
  std::span<const std::uint32_t> predecessors(Event event) const;

  void explain_standstill(const std::vector<std::uint32_t>& pending, Findings& findings) const;
  Event blocker_of(Event event, const std::vector<std::uint32_t>& pending) const;
  std::string name_of(Event event) const;
  GlobalTask task_of(Event event) const { return event / 2; }
  bool is_task_event(Event event) const { return event < 2 * all_.task_count(); }

  const AllRanks& all_;
  std::vector<Event> issued_;
  std::vector<Edge> edges_;  ///< orders that hold in every run
  /// Orders that hold only under the strictest protocol, in which a send completes only after its
  /// receive is posted.
  std::vector<Edge> strict_edges_;
  std::vector<CountedQueue> counted_;
  std::vector<std::uint32_t> predecessor_offsets_;
  /// The predecessors of each event. The top bit of an entry is set if a message travels from the
  /// predecessor to the event.
  std::vector<std::uint32_t> predecessors_;
  std::vector<Event> order_;
  std::vector<std::uint32_t> positions_;
};

/// The order between tasks of one rank, as far as the tasks of this rank alone determine it.
class EventGraph::Local {
 public:
  Local(const EventGraph& graph, std::uint32_t rank);
  /// True if task `first` is complete before task `second` is issued; both are tasks of this rank.
  bool before(GlobalTask first, GlobalTask second) const;

 private:
  const std::uint64_t* row(Event event) const;

  const EventGraph& graph_;
  std::uint32_t rank_;
  std::uint32_t words_;
  /// For each event, the bit set of the tasks that are complete before the event.
  std::vector<std::uint64_t> rows_;
};

}  // namespace tutti::schedule
