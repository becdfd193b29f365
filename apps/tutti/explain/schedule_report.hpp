// The costs of a collective's algorithms, and the task lists of one of them.
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
  std::string algorithm;  ///< algorithm; empty: the one that would run
  bool check = false;     ///< whether to prove the task lists correct
  bool tasks = false;     ///< whether to print the task lists
  std::string draw;       ///< SVG file for a timeline; empty: none
  std::uint64_t bits_per_second = 0;
};

/// Prints the table of all algorithms of the collective for this number of ranks, marks the one
/// that would run with the reason, and answers the question about one of them.
Status report_schedules(const ScheduleQuestion& question);

}  // namespace tutti::app
