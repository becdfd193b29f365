// Proves that the schedules of all ranks together do what their collective promises, or says which
// task is wrong.
//
// What is proved, for every legal order of arrivals, every block size and both transfer protocols:
//   - every message has one sender and one receiver, of one extent;
//   - nobody waits for ever;
//   - no task touches bytes that another may be writing at that time;
//   - no task reads bytes that are not there yet;
//   - every rank ends with the blocks, or the reductions with each contribution once, that the
//     collective promises;
//   - one-sided accesses and multicasts reach a rank only while its buffers are the collective's.
//
// Why no interleaving needs to be tried. Messages are matched by (source, destination, slot), one
// message each, and counts only grow, so a task that may be issued stays so: programs are monotone.
// Hence either every order of events runs to the end or every order stops at the same tasks, and
// one run decides about deadlock; it withholds a send's completion until the receive is posted, as
// the strictest protocol may. Orders that hold in every run form a graph: dependencies, queue
// order, releases, sent before received, and what a wait proves. A wait for n completions proves a
// task complete if fewer than n others could be. If all conflicting accesses are ordered by that
// graph, every run moves the same values, and one symbolic run shows them. Sizes do not matter
// because parts of blocks are compared as fractions (segment.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"
#include "tutti/status.hpp"

namespace tutti::schedule {

/// What kind of rule a finding breaks.
enum class Fault : std::uint8_t {
  program,  ///< the schedules do not belong together
  place,    ///< a block outside of its buffer, a write to the caller's send buffer, unequal extents
  message,  ///< a message nobody receives, or nobody sends, or two claim
  queue,    ///< waits and enables that cannot be counted
  deadlock,
  race,         ///< overlapping accesses that nothing orders
  early,        ///< a one-sided access or multicast outside of the time that the peer allows it
  unwritten,    ///< bytes read before anything wrote them
  combination,  ///< a reduction of unlike blocks, or with a contribution counted twice
  result,       ///< a rank does not end with what was promised
};

const char* to_string(Fault fault);

inline constexpr TaskIndex kNoTask = 0xffff'ffffu;

/// One thing that is wrong.
struct Finding {
  Fault fault = Fault::program;
  Rank rank = kNoRank;
  TaskIndex task = kNoTask;  ///< kNoTask where something is missing altogether
  std::string text;          ///< names rank, task and remedy
};

struct ValidateOptions {
  bool in_place = false;        ///< as if called in place (shape.hpp, Alias)
  bool receives_first = false;  ///< no multicast before all its receivers have posted (K3)
  bool varying = false;         ///< blocks may differ in size: each must lie at its own place
  std::size_t most_findings = 8;
};

/// The validator's answer.
struct Validation {
  /// Empty: all is proved. Otherwise the first phase that failed has named what it found.
  std::vector<Finding> findings;
  /// Rounds that the schedules count: the highest round of a message, plus one.
  std::uint32_t rounds = 0;
  /// Longest chain of messages that follow from each other; CTS messages do not count. Less than
  /// the rounds where the last one forwards nothing of the one before (Bruck, P not a power).
  std::uint32_t longest_chain = 0;
  /// Reductions: the result is the fold in rank order, for operators that do not commute.
  bool rank_ordered = false;
  /// Reductions: all ranks associate alike, so that they end with the same bits.
  bool same_association = false;

  bool ok() const { return findings.empty(); }
  /// The first finding as an error; ok where there is none.
  Status status() const;
};

/// Validates the schedules of ranks 0 .. P-1, in that order.
Validation validate(std::span<const Schedule> schedules, const ValidateOptions& options = {});

}  // namespace tutti::schedule
