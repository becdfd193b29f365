// Prints the costs of a collective's algorithms and the task lists of one algorithm.
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
  std::string algorithm;  ///< algorithm to report; empty: the one that would run
  bool check = false;     ///< whether the validator checks the task lists
  bool tasks = false;     ///< whether to print the task lists
  std::string draw;       ///< SVG file for a timeline of the tasks; empty: none
  std::uint64_t bits_per_second = 0;
};

/// Prints which algorithm would run and why, followed by a table of all algorithms for the
/// collective. Then prints, draws or checks the task lists of one algorithm, as `question` asks.
Status report_schedules(const ScheduleQuestion& question);

}  // namespace tutti::app
