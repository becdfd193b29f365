// The rules of the validator, and the finding, which describes how a schedule breaks a rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "schedule/schedule.hpp"
#include "tutti/units.hpp"

namespace tutti::schedule {

/// The rule of the validator that a schedule breaks.
enum class Fault : std::uint8_t {
  program,  ///< the schedules do not belong to one collective
  /// A block outside its buffer, a write to the caller's send buffer, or slices of unequal length.
  place,
  message,  ///< a message that does not have exactly one sender and one receiver
  queue,    ///< waits or enables whose counts do not fit their queue
  deadlock,
  race,  ///< conflicting accesses to the same bytes without an order between them
  /// A one-sided access that may happen before the peer's call begins or after this call has ended,
  /// or a multicast that may be sent before all receivers have posted.
  early,
  unwritten,    ///< a read of bytes that no task has written
  combination,  ///< a reduction that combines different blocks or counts a contribution twice
  result,       ///< final content that differs from the result of the collective
};

const char* to_string(Fault fault);

inline constexpr TaskIndex kNoTask = 0xffff'ffffu;

/// A violation of a rule by one task, or by the whole schedule of a rank.
struct Finding {
  Fault fault = Fault::program;
  Rank rank = kNoRank;
  TaskIndex task = kNoTask;  ///< task that breaks the rule; kNoTask if no single task does
  std::string text;          ///< text of the error: names the rank, the task and the remedy
};

struct ValidateOptions {
  bool in_place = false;  ///< true: validates the in-place form of the call (Alias in shape.hpp)
  /// True: all receivers must post their receives before a multicast is sent [Khalilov24] 3.3.
  bool receives_first = false;
  /// True: the blocks may differ in size. The proof then requires that no task puts a block into
  /// the place of another block, even temporarily.
  bool varying = false;
  std::size_t most_findings = 8;
};

}  // namespace tutti::schedule
