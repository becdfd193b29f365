// When each task of a collective would run on links of one rate and latency: a forecast for people,
// drawn as an SVG. It counts a host's link in both directions and nothing else.
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
  double latency_s = 20e-6;         ///< of a message, its cost at both ends included
  double memory_bytes_per_s = 5e9;  ///< for copies and reductions
};

/// One task of one rank in time.
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

/// Runs the schedules of all ranks. Errors: sizes that they do not serve; a schedule that stops.
Result<Timeline> forecast(std::span<const schedule::Schedule> schedules,
                          const schedule::Shape& shape, const LinkModel& model);

/// A row a rank, a colour a kind of task; readable on light and on dark grounds.
std::string to_svg(const Timeline& timeline, std::span<const schedule::Schedule> schedules,
                   const std::string& title);

}  // namespace tutti::app
