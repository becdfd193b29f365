// The rules of the validator, and a finding: one rule that a schedule breaks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "schedule/schedule.hpp"
#include "tutti/units.hpp"

namespace tutti::schedule {

/// The rule that a finding breaks.
enum class Fault : std::uint8_t {
  program,  ///< the schedules are not of one collective
  place,    ///< a block outside its buffer, a write to the caller's send buffer, unequal extents
  message,  ///< a message without a sender or receiver, or with two
  queue,    ///< waits and enables that cannot be counted
  deadlock,
  race,         ///< overlapping accesses without an order between them
  early,        ///< a one-sided access or multicast outside the time in which the peer allows it
  unwritten,    ///< a read of bytes that no task has written
  combination,  ///< a reduction of different blocks, or with a contribution counted twice
  result,       ///< final content that differs from the promise of the collective
};

const char* to_string(Fault fault);

inline constexpr TaskIndex kNoTask = 0xffff'ffffu;

/// A fault found in one task.
struct Finding {
  Fault fault = Fault::program;
  Rank rank = kNoRank;
  TaskIndex task = kNoTask;  ///< task at fault; kNoTask if a task is missing
  std::string text;          ///< text of the error: names the rank, the task and the remedy
};

struct ValidateOptions {
  bool in_place = false;  ///< true: validate the in-place call (shape.hpp, Alias)
  bool receives_first =
      false;  ///< requires that all receivers post before a multicast [Khalilov24] 3.3
  /// True: allow blocks of different sizes, so that each must be at its own place.
  bool varying = false;
  std::size_t most_findings = 8;
};

}  // namespace tutti::schedule
