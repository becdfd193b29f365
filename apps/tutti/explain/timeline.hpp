// A forecast of the time of each task of a collective on links of one rate and latency, drawn as an
// SVG. It models a host's link in both directions and nothing else.
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
  double latency_s = 20e-6;         ///< latency of a message, with its cost at both ends
  double memory_bytes_per_s = 5e9;  ///< memory bandwidth of copies and reductions
};

/// The time of one task of one rank.
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

/// Runs the schedules of all ranks. Fails for sizes that they do not serve and for a schedule that
/// stops.
Result<Timeline> forecast(std::span<const schedule::Schedule> schedules,
                          const schedule::Shape& shape, const LinkModel& model);

/// Draws a row per rank and a colour per kind of task; readable on light and dark backgrounds.
std::string to_svg(const Timeline& timeline, std::span<const schedule::Schedule> schedules,
                   const std::string& title);

}  // namespace tutti::app
