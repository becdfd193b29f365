// A collective that the host carries out from its schedule, a list of tasks ([Inozemtsev12] 3,
// 4.1). Messages up to the call's eager limit are copied into a SEND; longer ones go by rendezvous:
// the receiver names its memory in a clear-to-send, and the sender WRITEs there with an immediate.
//
// The tasks `multicast` and `collect`, and the recovery of lost chunks, belong to another class,
// MulticastOperation. No schedule may have both these tasks and messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/operation.hpp"
#include "engine/schedule/call_memory.hpp"
#include "engine/schedule/counter_steps.hpp"
#include "engine/schedule/paced_copy.hpp"
#include "engine/schedule/rendezvous_handshake.hpp"
#include "engine/schedule/schedule_trace.hpp"
#include "engine/schedule/schedule_workspace.hpp"
#include "protocol/ready_barrier.hpp"
#include "reduction/reducer.hpp"
#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"
#include "tutti/reduction.hpp"

namespace tutti::engine {

/// One call of a collective at one rank.
struct ScheduleCall {
  Description description;  ///< names of the collective and the algorithm, as string literals
  std::shared_ptr<const schedule::Schedule> schedule;
  /// Sizes of the call. The memory to which its spans refer must stay valid until `create` returns;
  /// the eager limit must be the same on all ranks.
  schedule::Shape shape;
  std::span<const std::byte> send;  ///< send buffer, in use until the call ends
  std::span<std::byte> receive;     ///< receive buffer, in use until the call ends
  std::optional<Reduction> reduction;
};

class ScheduleOperation final : public Operation {
 public:
  /// Computes the offsets and sizes of the tasks for this call, and checks the buffers. Fails with
  /// invalid_argument if the schedule does not support the sizes or if a buffer is too short. Fails
  /// with unsupported if the schedule has a task that a ScheduleOperation cannot carry out, such as
  /// multicast.
  static Result<std::unique_ptr<ScheduleOperation>> create(ScheduleCall call,
                                                           std::shared_ptr<WorkspacePool> pool);
  ~ScheduleOperation() override;

  std::uint64_t unexpected_bytes() const override { return unexpected_bytes_; }
  bool confirms_earlier() const override;
  void on_message(Instant now, Rank from, const protocol::Message& message) override;
  void on_data(Instant now, Rank from, std::uint32_t slot,
               std::span<const std::byte> payload) override;
  std::optional<std::span<std::byte>> place_of(Rank from, std::uint32_t slot,
                                               std::size_t payload_bytes) override;
  void on_placed(Instant now, Rank from, std::uint32_t slot) override;
  void on_immediate(Instant now, Rank from, std::uint32_t slot) override;
  void on_completion(Instant now, const device::Completion& completion) override;
  bool poll(Instant now) override;
  Instant next_deadline() const override;
  bool locally_complete() const override { return done(); }
  bool done() const override { return finished_; }
  void finish() override;
  observe::Phase phase() const override;
  Missing missing() const override;

 protected:
  void start(Instant now, bool barrier) override;

 private:
  using TaskIndex = schedule::TaskIndex;

  ScheduleOperation(ScheduleCall call, std::shared_ptr<WorkspacePool> pool);

  Status prepare_call();
  void begin_tasks(Instant now);
  void run(Instant now);
  void issue(Instant now, TaskIndex task);
  void copy(TaskIndex task);
  bool may_take_long(TaskIndex task);
  bool copy_on(Instant now);
  void complete(TaskIndex task);

  void send(Instant now, TaskIndex task);
  void transfer(Instant now, TaskIndex task);
  void receive(Instant now, TaskIndex task, std::size_t arrival);
  void wait_keys(Instant now, TaskIndex task);
  void fold_arrived_keys(TaskIndex task);
  void on_clear_to_send(Instant now, Rank from, std::uint32_t slot,
                        std::span<const std::byte> payload);
  std::optional<std::size_t> awaited_arrival(Rank from, std::uint32_t slot);
  void accept(std::size_t arrival, std::span<const std::byte> payload);
  void arrived(std::size_t arrival);
  void reduce(const schedule::Task& task, std::span<const std::byte> source,
              std::span<std::byte> target);
  void prepare_contribution();
  void finish_reduction();

  void reject(Rank from, std::uint32_t slot, const std::string& what);

  ScheduleCall call_;
  std::shared_ptr<WorkspacePool> pool_;
  std::unique_ptr<ScheduleWorkspace> space_;
  CallMemory memory_;
  std::optional<reduction::Reducer> reducer_;
  /// Memory that the send and receive buffers share if the call is in place.
  schedule::Alias alias_;
  /// Position of a reduction's result; empty at a rank that receives none.
  schedule::Extent result_;
  std::unique_ptr<protocol::ReadyBarrier> barrier_;
  protocol::Outbox outbox_;
  PacedCopy copy_;  ///< the paced copy in progress, which is the first of the workspace's copies
  ScheduleTrace trace_;
  CounterSteps counters_;
  RendezvousHandshake handshake_;
  std::uint64_t unexpected_bytes_ = 0;
  bool begun_ = false;
  bool finished_ = false;
};

}  // namespace tutti::engine
