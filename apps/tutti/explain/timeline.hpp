// Forecasts the time of each task of a collective on links of one rate and latency, and draws the
// forecast as an SVG. The model has each host's link in both directions and nothing else.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

struct LinkModel {
  double bits_per_second = 1e9;
  /// Time of a message apart from its bytes, in seconds, including the work at both ends.
  double latency_s = 20e-6;
  /// Memory bandwidth of copies and reductions, in bytes per second.
  double memory_bytes_per_s = 5e9;
};

/// The begin and end of one task of one rank.
struct Bar {
  std::uint32_t rank = 0;
  schedule::TaskIndex task = 0;
  double begin_s = 0;
  double end_s = 0;
};

struct Timeline {
  std::vector<Bar> bars;
  double end_s = 0;
};

/// Runs the schedules of all ranks in the model. Error: the schedules do not serve these sizes, or
/// a rank never ends.
Result<Timeline> forecast(std::span<const schedule::Schedule> schedules,
                          const schedule::Shape& shape, const LinkModel& model);

/// Draws a row for each rank and uses a colour for each kind of task. The drawing is readable on
/// light and dark backgrounds.
std::string to_svg(const Timeline& timeline, std::span<const schedule::Schedule> schedules,
                   const std::string& title);

}  // namespace tutti::app
