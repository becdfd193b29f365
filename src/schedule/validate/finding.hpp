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
  program,  ///< the schedules do not belong to one collective
  place,    ///< a block outside its buffer, a write to the caller's send buffer, unequal extents
  message,  ///< a message without a sender or receiver, or with two
  queue,    ///< waits and enables that cannot be counted
  deadlock,
  race,         ///< overlapping accesses that nothing orders
  early,        ///< a one-sided access or multicast before or after the time that the peer allows
  unwritten,    ///< bytes read before anything wrote them
  combination,  ///< a reduction of different blocks, or with a contribution counted twice
  result,       ///< a final content that the collective does not promise
};

const char* to_string(Fault fault);

inline constexpr TaskIndex kNoTask = 0xffff'ffffu;

/// One fault.
struct Finding {
  Fault fault = Fault::program;
  Rank rank = kNoRank;
  TaskIndex task = kNoTask;  ///< kNoTask if a task is missing
  std::string text;          ///< names the rank, the task and the remedy
};

struct ValidateOptions {
  bool in_place = false;  ///< validates the in-place call (shape.hpp, Alias)
  bool receives_first =
      false;             ///< requires that all receivers post before a multicast [Khalilov24] 3.3
  bool varying = false;  ///< allows blocks of different sizes: each must be at its own place
  std::size_t most_findings = 8;
};

}  // namespace tutti::schedule
