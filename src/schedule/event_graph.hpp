// The events of all ranks' programs and which must come before which, in every legal run.
//
// A task has two events: it is issued, and it is complete. A rank has two more: its call begins,
// and its call ends. A posted receive that waits for nothing is issued with its rank's beginning.
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

  /// Runs the programs once, each transfer as strict as either protocol allows. False: some tasks
  /// wait for ever; the finding names a circle of them.
  bool run(Findings& findings);
  /// After a run: the events in the order in which they happened, and each one's place in it.
  std::span<const Event> order() const { return order_; }
  std::uint32_t position(Event event) const { return positions_[event]; }

  /// After a run: adds what waits on queues that complete out of order prove. Repeats until nothing
  /// more follows.
  void add_proofs_of_waits();

  /// Answers, for each pair, whether `first` comes before `second` in every run.
  std::vector<bool> always_before(std::span<const std::pair<Event, Event>> pairs) const;
  /// The same within one rank, from that rank's own events alone; a row a task.
  class Local;

  /// Longest chain of messages before the end of any rank.
  std::uint32_t longest_chain() const;

 private:
  friend class Local;

  struct Edge {
    Event before;
    Event after;
    bool message;  ///< a message travels along it
  };
  /// A wait, and how many completions it needs since the beginning.
  struct Threshold {
    GlobalTask wait;
    std::uint64_t completions;
  };
  /// One rank's completion queue.
  struct CountedQueue {
    std::uint32_t rank;
    std::vector<GlobalTask> reporting;
    std::vector<Threshold> waits;
    bool in_order;  ///< fed by one queue that completes in order
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
  std::vector<Edge> edges_;         ///< what always holds
  std::vector<Edge> strict_edges_;  ///< what the strictest protocol adds
  std::vector<CountedQueue> counted_;
  std::vector<std::uint32_t> predecessor_offsets_;
  std::vector<std::uint32_t> predecessors_;  ///< events, the top bit set on a message
  std::vector<Event> order_;
  std::vector<std::uint32_t> positions_;
};

/// What is complete before what within one rank, as far as the rank's own tasks order it.
class EventGraph::Local {
 public:
  Local(const EventGraph& graph, std::uint32_t rank);
  /// Whether `first`, a task of the rank, is complete before `second`, another, is issued.
  bool before(GlobalTask first, GlobalTask second) const;

 private:
  const std::uint64_t* row(Event event) const;

  const EventGraph& graph_;
  std::uint32_t rank_;
  std::uint32_t words_;
  std::vector<std::uint64_t> rows_;  ///< by event: the tasks complete before it
};

}  // namespace tutti::schedule
