// The state of one run of a schedule, apart from the schedule and the caller's buffers. Workspaces
// are reused between calls, so that later calls allocate nothing ([Inozemtsev12] 4.1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/device.hpp"
#include "protocol/codec/data_message.hpp"
#include "schedule/buffer_slice.hpp"
#include "schedule/shape.hpp"
#include "schedule/task_board.hpp"

namespace tutti::engine {

/// The state of a message that the schedule receives.
struct ArrivalState {
  bool posted = false;  ///< true: the receive task was issued
  /// True: the device has the target and may store a message there. It gets the target only once,
  /// because a second message could still arrive after the call, whose buffer may be freed by then.
  bool placed = false;
  /// True: the data has arrived, in its target if `posted`, else in `unexpected`.
  bool arrived = false;
  std::vector<std::byte> unexpected;
};

/// The state of a message that the schedule sends by rendezvous, or of an addition to a counter.
struct DepartureState {
  bool issued = false;
  std::optional<protocol::ClearToSend> clear;
  /// Time at which the receiver is told the size if `clear` is still missing; kNever: not (again).
  Instant announce_at = kNever;
  std::array<std::byte, sizeof(std::uint64_t)> old_value{};  ///< peer's counter before the addition
};

struct ScheduleWorkspace {
  schedule::TaskBoard board;
  /// By task: offsets and sizes of its buffer slices in this call.
  std::vector<schedule::FilledTask> filled;
  /// State of each message, by index into Schedule::arrivals().
  std::vector<ArrivalState> arrivals;
  /// By task: state of the message that the task sends by rendezvous.
  std::vector<DepartureState> departures;
  /// Tasks that were issued but refused by a full send queue.
  std::vector<schedule::TaskIndex> unsent;
  /// Long copies that were issued and are carried out in slices.
  std::vector<schedule::TaskIndex> copies;
  /// By wait_keys task: number of contributions that the task has already reduced.
  std::vector<std::uint32_t> folded;
  /// By index into Schedule::arrivals(): memory for a message that a wait_keys task receives by
  /// rendezvous.
  std::vector<std::vector<std::byte>> keyed;
  std::vector<std::byte> scratch;
  /// This rank's contribution if the schedule cannot use the caller's send buffer: the contribution
  /// multiplied by the rank's factor, or a copy from the receive buffer.
  std::vector<std::byte> contribution;
  std::array<std::optional<device::MemoryKey>, schedule::kBufferKinds> keys;
  /// By index into Schedule::arrivals(): memory key for a message that a wait_keys task receives by
  /// rendezvous.
  std::vector<std::optional<device::MemoryKey>> keyed_keys;
};

/// A source of workspaces. A call takes a workspace in the caller's thread and gives it back in the
/// engine's thread, so an implementation must be thread-safe if these are two threads.
class WorkspacePool {
 public:
  virtual ~WorkspacePool() = default;
  virtual std::unique_ptr<ScheduleWorkspace> take() {
    if (count_ == 0) return std::make_unique<ScheduleWorkspace>();
    return std::move(free_[--count_]);
  }
  /// A destructor calls this function, so the function must not throw.
  virtual void give_back(std::unique_ptr<ScheduleWorkspace> space) noexcept {
    if (count_ < kKept) free_[count_++] = std::move(space);
  }

 private:
  static constexpr std::size_t kKept = 8;
  std::array<std::unique_ptr<ScheduleWorkspace>, kKept> free_;
  std::size_t count_ = 0;
};

}  // namespace tutti::engine
