// Runs the tasks of one call that use counters in memory: adds to the counter of a peer by an
// atomic operation, and waits for the additions of other ranks. A rank that waits sends a
// clear-to-send with the memory key of its counters to each rank that adds, once in the life of the
// communicator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "schedule/schedule.hpp"
#include "tutti/priority.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class CommunicatorContext;

class CounterSteps {
 public:
  using OldValue = std::array<std::byte, sizeof(std::uint64_t)>;

  /// Called before any other function. The context and the schedule must outlive the call.
  void begin(CommunicatorContext& context, const schedule::Schedule& schedule, std::uint32_t epoch,
             Priority priority);
  /// Adds 1 to the counter of the task's peer, if that peer has sent its key. The counter's old
  /// value is later stored in `old_value`. Returns false if the send queue is full.
  bool add(Instant now, schedule::TaskIndex task, OldValue& old_value);
  /// Checks the answer to an addition. Fails the communicator if the old value is not below the
  /// number of ranks, because the counter was then changed or read wrongly.
  bool accept_old_value(Rank peer, const OldValue& old_value);
  /// Begins to wait until each rank that the task names has added to this rank's counter.
  void begin_wait(Instant now, schedule::TaskIndex task);
  /// Ends the wait and returns the waiting task once this rank's counter has all additions. Until
  /// then returns nothing.
  std::optional<schedule::TaskIndex> take_complete();

 private:
  CommunicatorContext* context_ = nullptr;
  const schedule::Schedule* schedule_ = nullptr;
  std::uint32_t epoch_ = 0;
  Priority priority_ = Priority::normal;
  std::optional<schedule::TaskIndex> waiting_;
};

}  // namespace tutti::engine
