// Forecasts when each task of a collective begins and ends, and draws the forecast as an SVG. In
// the model each host has one link and one memory; all links have the same rate and latency, and
// all memories the same bandwidth.
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
  /// Time of an empty message, in seconds, including the work of sender and receiver.
  double latency_s = 20e-6;
  /// Rate at which a host copies or reduces data, in bytes per second.
  double memory_bytes_per_s = 5e9;
};

/// The time from begin to end of one task of one rank.
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

/// Forecasts the tasks of all ranks. Error: the schedules do not support the sizes of `shape`, or a
/// task never ends.
Result<Timeline> forecast(std::span<const schedule::Schedule> schedules,
                          const schedule::Shape& shape, const LinkModel& model);

/// Draws the timeline as an SVG, with rows for each rank and a colour for each kind of task. It is
/// readable on light and dark backgrounds.
std::string to_svg(const Timeline& timeline, std::span<const schedule::Schedule> schedules,
                   const std::string& title);

}  // namespace tutti::app
