#include "engine/schedule/schedule_trace.hpp"

#include <algorithm>

namespace tutti::engine {

using schedule::Match;
using schedule::Task;
using schedule::TaskIndex;
using schedule::TaskKind;
using schedule::Transfer;

void ScheduleTrace::start(observe::CommunicatorTrace* trace, std::uint32_t epoch,
                          const schedule::Schedule& schedule,
                          const std::vector<schedule::FilledTask>& filled) {
  trace_ = trace;
  epoch_ = epoch;
  schedule_ = &schedule;
  filled_ = &filled;
  if (trace_ != nullptr) issued_at_.resize(schedule.tasks().size());
}

void ScheduleTrace::add_task(TaskIndex at) {
  const Task& task = schedule_->tasks()[at];
  const schedule::FilledTask& filled = (*filled_)[at];
  observe::TraceSpan span{.epoch = epoch_,
                          .name = schedule::to_string(task.kind),
                          .begin = issued_at_[at],
                          .end = trace_->now(),
                          .slot = task.slot,
                          .bytes = std::max(filled.source.size_bytes, filled.target.size_bytes)};
  const char* const how = filled.transfer == Transfer::eager ? "eager" : "rendezvous";
  switch (task.kind) {
    case TaskKind::send:
    case TaskKind::signal:
      span.kind = observe::TraceKind::send;
      span.detail = how;
      span.peer = task.peer;
      break;
    case TaskKind::recv:
      span.kind = observe::TraceKind::receive;
      span.detail = how;
      span.peer = task.peer;
      break;
    default:
      span.kind = observe::TraceKind::compute;
  }
  trace_->add(span);
}

/// Records the arrival of one message of a wait_keys task; the span of the task covers all its
/// messages.
void ScheduleTrace::add_arrival(std::size_t arrival) {
  const Match& match = schedule_->arrivals()[arrival];
  if (schedule_->tasks()[match.task].kind != TaskKind::wait_keys) return;
  const Instant at = trace_->now();
  trace_->add({.kind = observe::TraceKind::receive,
               .epoch = epoch_,
               .name = "key",
               .begin = at,
               .end = at,
               .peer = rank_of(match.peer),
               .slot = match.slot,
               .bytes = (*filled_)[match.task].target.size_bytes});
}

}  // namespace tutti::engine
