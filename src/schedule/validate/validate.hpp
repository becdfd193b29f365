// Proves that the schedules of all ranks together deliver what their collective promises, or names
// a faulty task.
//
// The proof holds for every legal order of arrivals, every block size and both transfer protocols:
//   - every message has one sender and one receiver, of equal extent;
//   - no rank waits forever;
//   - no task touches bytes that another may be writing at that time;
//   - no task reads bytes that are not there yet;
//   - every rank ends with the blocks, or the reductions with each contribution once, that the
//     collective promises;
//   - one-sided accesses and multicasts reach a rank only while its call is under way.
//
// One run suffices. Each (source, destination, slot) carries one message and counts only grow, so a
// task that may be issued remains issuable: programs are monotone. Either every order of events
// runs to the end or every order stops at the same tasks. The run delays a send's completion until
// the receive is posted, as the strictest protocol may.
//
// The orders that hold in every run form a graph: dependencies, queue order, releases, sent before
// received, and the proofs of waits. A wait for n completions proves a task complete if fewer than
// n others could be. If the graph orders all conflicting accesses, every run moves the same values
// and one symbolic run shows them. Parts of blocks are compared as fractions (buffer_slice.hpp), so
// sizes do not matter.
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
  /// The findings of the first phase that failed; empty if all is proved.
  std::vector<Finding> findings;
  /// Number of rounds: the highest round of a message, plus one.
  std::uint32_t rounds = 0;
  /// Number of messages in the longest chain of messages that follow from each other, CTS messages
  /// excluded. It is less than `rounds` if the last round forwards nothing of the round before
  /// (Bruck, if P is not a power).
  std::uint32_t longest_chain = 0;
  /// For reductions: true if the result is the fold in rank order, as operators that do not commute
  /// need.
  bool rank_ordered = false;
  /// For reductions: true if all ranks associate in the same way and so end with the same bits.
  bool same_association = false;

  bool ok() const { return findings.empty(); }
  /// The first finding as an error; ok if there is none.
  Status status() const;
};

/// Validates the schedules of ranks 0 to P-1, in that order.
Validation validate(std::span<const Schedule> schedules, const ValidateOptions& options = {});

}  // namespace tutti::schedule
