// The rendezvous handshake of a schedule's long messages: the receiver sends a clear-to-send when
// its receive is issued. If it is overdue, the receiver may expect a short message, so the sender
// tells it the size by a ready-to-send.
#pragma once

#include <cstdint>
#include <string>

#include "engine/core/communicator_context.hpp"
#include "engine/schedule/schedule_workspace.hpp"
#include "protocol/codec/data_message.hpp"
#include "schedule/schedule.hpp"

namespace tutti::engine {

class RendezvousHandshake {
 public:
  /// The arguments must outlive this object.
  void begin(CommunicatorContext& context, const schedule::Schedule& schedule,
             ScheduleWorkspace& space, std::uint32_t epoch, Priority priority);
  /// Tells the sender of a message where its bytes must go.
  void send_clear(Instant now, Rank sender, std::uint32_t slot, const protocol::ClearToSend& clear);
  /// Waits for the clear-to-send of a message that this rank sends.
  void await_clear(Instant now, schedule::TaskIndex task);
  /// The time at which `announce` must run next.
  Instant due() const { return due_; }
  /// Sends a ready-to-send for each message whose clear-to-send is overdue, once for each message.
  void announce(Instant now);
  /// The reason why a message does not fit the schedule of this rank; empty if it fits.
  std::string misfit(Rank sender, const protocol::ReadyToSend& ready) const;
  /// The reason why a message that this rank receives or sends does not fit.
  std::string sizes_differ(Rank sender, std::uint64_t sent, Rank receiver,
                           std::uint64_t expected) const;

 private:
  CommunicatorContext* context_ = nullptr;
  const schedule::Schedule* schedule_ = nullptr;
  ScheduleWorkspace* space_ = nullptr;
  std::uint32_t epoch_ = 0;
  Priority priority_ = Priority::normal;
  Instant due_ = kNever;
};

}  // namespace tutti::engine
