// Records the tasks of one run of a schedule in the trace. Each call costs one comparison if
// tracing is off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "observe/trace_log.hpp"
#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class ScheduleTrace {
 public:
  /// A null `trace` turns tracing off. All arguments must outlive this object.
  void start(observe::CommunicatorTrace* trace, std::uint32_t epoch,
             const schedule::Schedule& schedule, const std::vector<schedule::FilledTask>& filled);

  void issued(schedule::TaskIndex task) {
    if (trace_ != nullptr) issued_at_[task] = trace_->now();
  }
  void completed(schedule::TaskIndex task) {
    if (trace_ != nullptr) add_task(task);
  }
  /// Records that a message of Schedule::arrivals() has arrived.
  void arrived(std::size_t arrival) {
    if (trace_ != nullptr) add_arrival(arrival);
  }

 private:
  void add_task(schedule::TaskIndex at);
  void add_arrival(std::size_t arrival);

  observe::CommunicatorTrace* trace_ = nullptr;
  const schedule::Schedule* schedule_ = nullptr;
  const std::vector<schedule::FilledTask>* filled_ = nullptr;
  std::uint32_t epoch_ = 0;
  std::vector<Instant> issued_at_;  ///< by task: time when the task was issued
};

}  // namespace tutti::engine
