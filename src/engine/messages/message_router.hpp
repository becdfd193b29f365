// Hands each message, probe and completion of the endpoint to the operation, or the part of the
// context, that it concerns. Tells the device where to store a message whose receive is posted.
// Stores messages of collectives that this rank has not begun, and rejects all other messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "engine/core/by_epoch.hpp"
#include "engine/core/operation.hpp"
#include "engine/core/operation_queue.hpp"
#include "engine/core/retention.hpp"
#include "engine/exchange/slot_recovery.hpp"
#include "engine/messages/message_sender.hpp"
#include "engine/messages/tagged_messages.hpp"
#include "engine/peers/close_protocol.hpp"
#include "engine/peers/failure_coordinator.hpp"
#include "engine/peers/rank_names.hpp"
#include "observe/counters.hpp"
#include "protocol/codec/message.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class MessageRouter final : public RejectionSink, public device::MessageMatcher {
 public:
  /// A membership probe that has arrived.
  struct Probe {
    Rank source;
    std::uint64_t subgroup;  ///< subgroup of the probe; device::kUnicast: sent by unicast
    std::uint32_t bytes;     ///< size of the probe's datagram
  };

  /// The referenced objects must outlive this one.
  MessageRouter(const RankNames& names, OperationQueue& operations, FailureCoordinator& failures,
                MessageSender& messages, TaggedMessages& tagged, Retention& retention,
                SlotRecovery& slots, CloseProtocol& closing, observe::Counters& counters)
      : names_(names),
        operations_(operations),
        failures_(failures),
        messages_(messages),
        tagged_(tagged),
        retention_(retention),
        slots_(slots),
        closing_(closing),
        counters_(counters) {}

  std::optional<device::MessagePlace> match(Rank source, std::span<const std::byte> first,
                                            std::size_t bytes) override;
  /// Handles completions; returns false if there are none.
  bool take(Instant now, std::span<const device::Completion> completions);
  /// Delivers the messages of `operation` that arrived before this rank began it.
  void deliver_unexpected(Instant now, Operation& operation);
  /// Sets whether probes are kept for `take_probes`; at first they are not.
  void keep_probes(bool on) { keeps_probes_ = on; }
  /// Moves out the probes received so far.
  std::vector<Probe> take_probes() { return std::exchange(probes_, {}); }

  void reject_message(Rank from, const protocol::Message& message) override;
  void reject_chunk(Rank source, std::size_t bytes) override;
  void reject_data(const Operation& operation, Rank from, std::uint32_t slot) override;

 private:
  void reject(Rank from, std::uint32_t epoch, std::string_view what, std::string_view fault);
  void reject_late(Rank from, std::uint32_t epoch, std::string_view what);
  // Messages and data of collectives that this rank has not begun.
  struct UnexpectedMessage {
    Rank from;
    protocol::Message message;
  };
  struct UnexpectedData {
    Rank from;
    std::uint32_t slot;
    std::vector<std::byte> payload;
  };

  void on_completion(Instant now, const device::Completion& completion);
  void on_arrival(Instant now, const device::Completion& completion);
  void on_matched(Instant now, Rank from, std::uint64_t token);
  void on_message(Instant now, Rank from, std::span<const std::byte> bytes);
  void on_data(Instant now, Rank from, std::span<const std::byte> bytes);
  void on_immediate(Instant now, Rank from, std::uint64_t immediate);

  const RankNames& names_;
  OperationQueue& operations_;
  FailureCoordinator& failures_;
  MessageSender& messages_;
  TaggedMessages& tagged_;
  Retention& retention_;
  SlotRecovery& slots_;
  CloseProtocol& closing_;
  observe::Counters& counters_;
  ByEpoch<UnexpectedMessage> unexpected_;
  ByEpoch<UnexpectedData> unexpected_data_;
  std::uint64_t unexpected_data_bytes_ = 0;
  bool keeps_probes_ = false;
  std::vector<Probe> probes_;
};

}  // namespace tutti::engine
