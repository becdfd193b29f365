// The state of one run of a schedule, beside the schedule and the caller's buffers. Workspaces are
// reused, so that a call allocates nothing in the steady state ([Inozemtsev12] 4.1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/device.hpp"
#include "protocol/codec/data_message.hpp"
#include "schedule/segment.hpp"
#include "schedule/shape.hpp"
#include "schedule/task_board.hpp"

namespace tutti::engine {

/// A message that the schedule waits for.
struct ArrivalState {
  bool posted = false;   ///< its receive was issued
  bool arrived = false;  ///< its data is at its place if posted, else in `unexpected`
  std::vector<std::byte> unexpected;
};

/// A message that the schedule sends by rendezvous.
struct DepartureState {
  bool issued = false;
  std::optional<protocol::ClearToSend> clear;
};

struct ScheduleWorkspace {
  schedule::TaskBoard board;
  std::vector<schedule::FilledTask> filled;   ///< by task
  std::vector<ArrivalState> arrivals;         ///< by Schedule::arrivals()
  std::vector<DepartureState> departures;     ///< by task
  std::vector<schedule::TaskIndex> unsent;    ///< issued, refused by a full send queue
  std::vector<schedule::TaskIndex> copies;    ///< issued, long: carried out in slices
  std::vector<std::uint32_t> folded;          ///< by task: keys of a wait_keys already folded
  std::vector<std::vector<std::byte>> keyed;  ///< by arrival: memory for keyed rendezvous
  std::vector<std::byte> scratch;
  std::vector<std::byte> scaled;  ///< the contribution times its factor
  std::array<std::optional<device::MemoryKey>, schedule::kBufferKinds> keys;
  std::vector<std::optional<device::MemoryKey>> keyed_keys;  ///< by arrival
};

/// Source of workspaces. A call takes one in the caller's thread and gives it back in the engine's:
/// an implementation must be thread-safe if these differ.
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
