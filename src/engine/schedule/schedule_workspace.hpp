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
  bool posted = false;   ///< true: the receive was issued
  bool arrived = false;  ///< true: the data is at its place if `posted`, else in `unexpected`
  std::vector<std::byte> unexpected;
};

/// The state of a message that the schedule sends by rendezvous.
struct DepartureState {
  bool issued = false;
  std::optional<protocol::ClearToSend> clear;
};

struct ScheduleWorkspace {
  schedule::TaskBoard board;
  std::vector<schedule::FilledTask> filled;  ///< by task: offsets and sizes in this call
  std::vector<ArrivalState> arrivals;        ///< by index into Schedule::arrivals()
  std::vector<DepartureState> departures;    ///< by task: state of its rendezvous
  /// Tasks that were issued but refused by a full send queue.
  std::vector<schedule::TaskIndex> unsent;
  /// Long copies that were issued and are carried out in slices.
  std::vector<schedule::TaskIndex> copies;
  /// By task: number of keys that a wait_keys has folded.
  std::vector<std::uint32_t> folded;
  /// By arrival: memory for a keyed message by rendezvous.
  std::vector<std::vector<std::byte>> keyed;
  std::vector<std::byte> scratch;
  std::vector<std::byte> scaled;  ///< contribution of this rank, multiplied by its factor
  std::array<std::optional<device::MemoryKey>, schedule::kBufferKinds> keys;
  /// By arrival: memory key for a keyed message by rendezvous.
  std::vector<std::optional<device::MemoryKey>> keyed_keys;
};

/// A source of workspaces. A call takes one in the caller's thread and gives it back in the
/// engine's, so an implementation must be thread-safe if these differ.
class WorkspacePool {
 public:
  virtual ~WorkspacePool() = default;
  virtual std::unique_ptr<ScheduleWorkspace> take() {
    if (free_.empty()) return std::make_unique<ScheduleWorkspace>();
    std::unique_ptr<ScheduleWorkspace> space = std::move(free_.back());
    free_.pop_back();
    return space;
  }
  virtual void give_back(std::unique_ptr<ScheduleWorkspace> space) {
    if (free_.size() < kKept) free_.push_back(std::move(space));
  }

 private:
  static constexpr std::size_t kKept = 8;
  std::vector<std::unique_ptr<ScheduleWorkspace>> free_;
};

}  // namespace tutti::engine
