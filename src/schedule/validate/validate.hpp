// Proves that the schedules of all ranks together give the result of their collective, or names a
// faulty task.
//
// The proof shows, for every legal order of arrivals, every block size and both transfer protocols:
//   - every message has one sender and one receiver, whose slices have the same length;
//   - no rank waits forever;
//   - no task touches bytes that another may be writing at that time;
//   - no task reads bytes that are not there yet;
//   - every rank ends with the result of the collective, and each reduction contains each
//     contribution exactly once;
//   - one-sided accesses reach a rank only during its call and, with `receives_first`, multicasts
//     only after the receives are posted.
//
// One run suffices: a task that may be issued remains issuable, so either every order of events
// runs to the end or every order stops at the same tasks. In this run a send completes only after
// its receive is posted, as under the strictest protocol.
//
// A graph contains each order of two events that holds in every run (event_graph.hpp). If the graph
// orders all conflicting accesses, every run moves the same values, and one symbolic run shows
// which values these are. Parts of blocks are compared as fractions (buffer_slice.hpp), so sizes do
// not matter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/validate/finding.hpp"
#include "tutti/status.hpp"

namespace tutti::schedule {

/// The result of a validation.
struct Validation {
  /// The findings of the first phase that failed; empty if the schedules are correct.
  std::vector<Finding> findings;
  /// Number of rounds: the highest round number of a message, plus one.
  std::uint32_t rounds = 0;
  /// Length of the longest chain of messages in which each message depends on the previous one; CTS
  /// messages do not count. It can be less than `rounds`, because a message need not depend on a
  /// message of the round before.
  std::uint32_t longest_chain = 0;
  /// For reductions: true if the result is the fold in rank order, which operators that do not
  /// commute need.
  bool rank_ordered = false;
  /// For reductions: true if all ranks fold with the same association, so that their results have
  /// the same bits.
  bool same_association = false;

  bool ok() const { return findings.empty(); }
  /// The first finding as an error; ok if there is none.
  Status status() const;
};

/// Validates the schedules of all ranks, which must be in rank order.
Validation validate(std::span<const Schedule> schedules, const ValidateOptions& options = {});

}  // namespace tutti::schedule
