// What the algorithms of a collective cost, and what one of them does task by task.
#pragma once

#include <cstdint>
#include <string>

#include "explain/choice.hpp"
#include "tutti/collective.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

struct ScheduleQuestion {
  Collective collective = Collective::allgather;
  std::uint32_t ranks = 4;
  std::uint64_t block_bytes = 0;
  Whereabouts where;
  std::uint32_t root = 0;
  DataType type = DataType::float32;
  std::string algorithm;  ///< empty: what would run
  bool check = false;     ///< prove it
  bool tasks = false;     ///< print the task lists
  std::string draw;       ///< write a timeline to this file
  std::uint64_t bits_per_second = 0;
};

/// The table of all algorithms of the collective that serve so many ranks, with the one that would
/// run, and why; then what the question asks about one of them.
Status report_schedules(const ScheduleQuestion& question);

}  // namespace tutti::app
