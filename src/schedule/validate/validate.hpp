// Proves that the schedules of all ranks together give the result of their collective, or names a
// faulty task.
//
// The proof shows, for every legal order of arrivals, every block size and both transfer protocols:
//   - every message has one sender and one receiver, of equal extent;
//   - no rank waits forever;
//   - no task touches bytes that another may be writing at that time;
//   - no task reads bytes that are not there yet;
//   - every rank ends with the blocks, or the reductions with each contribution once, that the
//     collective promises;
//   - one-sided accesses and multicasts reach a rank only while its call is under way.
//
// One run suffices: a task that may be issued remains issuable, so either every order of events
// runs to the end or every order stops at the same tasks. In this run a send completes only after
// its receive is posted, as under the strictest protocol.
//
// The orders between events that hold in every run form a graph (event_graph.hpp). If the graph
// orders all conflicting accesses, every run moves the same values, and one symbolic run shows
// them. Parts of blocks are compared as fractions (buffer_slice.hpp), so sizes do not matter.
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
  /// messages do not count. It is less than `rounds` if the last round forwards nothing that
  /// arrived in the round before.
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
