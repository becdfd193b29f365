#include "engine/messages/message_router.hpp"

#include "base/error.hpp"
#include "engine/aggregate/window_plan.hpp"
#include "engine/core/barrier_policy.hpp"
#include "protocol/codec/data_message.hpp"
#include "schedule/schedule.hpp"

namespace tutti::engine {

using protocol::MessageKind;

namespace {

constexpr std::size_t kMaxUnexpectedMessages = 1 << 16;
// At most this many bytes of data, including an overhead for each message, are stored for
// collectives that this rank has not begun. The limit is never reached if all ranks call the same
// collectives.
constexpr std::uint64_t kMaxUnexpectedBytes = 2 * BarrierPolicy::kMaxUnexpectedBytes;

// Bit 63 of a token is 1 for a data message and 0 for a tagged message. Only data slots, which
// have 31 bits, get a token: no receive matches a CTS or a ready-to-send.
constexpr std::uint64_t kDataToken = std::uint64_t{1} << 63;

/// Names a message that a peer sends only if its call differs from this rank's, given that this
/// rank's call has ended or does not use such messages; null for all other messages.
const char* sign_of_a_different_call(MessageKind kind) {
  if (kind == MessageKind::barrier) return "a barrier message";
  if (kind == MessageKind::final) return "the final handshake message";
  return nullptr;
}

std::uint64_t stored_bytes(std::span<const std::byte> payload) {
  return payload.size() + BarrierPolicy::kUnexpectedOverheadBytes;
}

std::uint64_t data_token(std::uint32_t epoch, std::uint32_t slot) {
  return kDataToken | std::uint64_t{slot} << 32 | epoch;
}
std::uint32_t epoch_of(std::uint64_t token) { return static_cast<std::uint32_t>(token); }
std::uint32_t slot_of(std::uint64_t token) {
  return static_cast<std::uint32_t>((token & ~kDataToken) >> 32);
}

}  // namespace

bool MessageRouter::take(Instant now, std::span<const device::Completion> completions) {
  for (const device::Completion& completion : completions) on_completion(now, completion);
  return !completions.empty();
}

void MessageRouter::on_completion(Instant now, const device::Completion& completion) {
  switch (completion.opcode) {
    case device::Opcode::receive:
      on_arrival(now, completion);
      return;
    case device::Opcode::matched:
      on_matched(now, completion.peer, completion.work_id);
      return;
    case device::Opcode::send:
      messages_.on_sent(completion.work_id);
      if (completion.code == Code::peer_failed) failures_.on_peer_failure(completion);
      return;
    case device::Opcode::probe:
      if (keeps_probes_)
        probes_.push_back({completion.peer, completion.immediate, completion.probe_bytes});
      return;
    case device::Opcode::failure:
      failures_.on_peer_failure(completion);
      return;
    default:
      // Work for a lost peer may end with an error before the device reports the loss itself. Such
      // an error is handled like the report of the loss.
      if (completion.code == Code::peer_failed) {
        failures_.on_peer_failure(completion);
      } else if (TaggedMessages::owns(completion.work_id)) {
        tagged_.on_read(now, completion);
      } else if (Operation* operation =
                     operations_.find(static_cast<std::uint32_t>(completion.work_id >> 32))) {
        operation->on_completion(now, completion);
      }
  }
}

std::optional<device::MessagePlace> MessageRouter::match(Rank source,
                                                         std::span<const std::byte> first,
                                                         std::size_t bytes) {
  // Once a failure has ended the calls, their buffers belong to the callers again, so no message
  // may be stored there.
  if (failures_.settled()) return std::nullopt;
  if (protocol::is_tagged_message(first)) return tagged_.match(source, first, bytes);
  if (!protocol::is_data_message(first)) return std::nullopt;
  const auto head = protocol::decode_data(first);
  Operation* const operation = head ? operations_.find(head->epoch) : nullptr;
  if (operation == nullptr) return std::nullopt;
  const auto place = operation->place_of(source, head->slot, bytes - protocol::kDataHeaderBytes);
  if (!place) return std::nullopt;
  ++counters_.messages_received;
  return device::MessagePlace{.token = data_token(head->epoch, head->slot),
                              .skip = protocol::kDataHeaderBytes,
                              .memory = *place};
}

void MessageRouter::on_matched(Instant now, Rank from, std::uint64_t token) {
  if ((token & kDataToken) == 0) return tagged_.on_matched(now, token);
  if (Operation* const operation = operations_.find(epoch_of(token)))
    operation->on_placed(now, from, slot_of(token));
}

// A completion without payload is an immediate: the peer has already written the data to this
// rank's memory.
void MessageRouter::on_arrival(Instant now, const device::Completion& completion) {
  if (completion.payload.empty()) {
    on_immediate(now, completion.peer, completion.immediate);
  } else if (protocol::is_data_message(completion.payload)) {
    on_data(now, completion.peer, completion.payload);
  } else if (protocol::is_tagged_message(completion.payload)) {
    tagged_.on_message(now, completion.peer, completion.payload);
  } else {
    on_message(now, completion.peer, completion.payload);
  }
}

void MessageRouter::on_immediate(Instant now, Rank from, std::uint64_t immediate) {
  ++counters_.messages_received;
  if (Operation* operation = operations_.find(static_cast<std::uint32_t>(immediate >> 32))) {
    operation->on_immediate(now, from, static_cast<std::uint32_t>(immediate));
  } else {
    ++counters_.messages_rejected;
  }
}

void MessageRouter::on_data(Instant now, Rank from, std::span<const std::byte> bytes) {
  ++counters_.messages_received;
  const auto message = protocol::decode_data(bytes);
  if (!message) {
    ++counters_.messages_rejected;
    return;
  }
  if (Operation* operation = operations_.find(message->epoch)) {
    operation->on_data(now, from, message->slot, message->payload);
    return;
  }
  if (operations_.has_begun(message->epoch)) {
    // A ready-to-send may wait at its sender until the message itself has arrived. A CTS has the
    // slot of no entry.
    const bool clears = (message->slot & schedule::kCtsSlots) != 0;
    const bool expected =
        clears ? message->slot == protocol::kReadySlot : slots_.may_have_requested(message->epoch);
    if (!expected) reject_late(from, message->epoch, "data");
    return;
  }
  unexpected_data_bytes_ += stored_bytes(message->payload);
  if (unexpected_data_bytes_ > kMaxUnexpectedBytes) {
    failures_.fail(
        failures_.misfit(from, Code::peer_failed,
                         "{} sent data for collective #{}, which this rank has not called, and "
                         "the limit of {} bytes for such data is exceeded: call the same "
                         "collectives in the same order on all ranks",
                         names_.of(from), message->epoch, kMaxUnexpectedBytes));
    return;
  }
  unexpected_data_.keep(message->epoch,
                        {from, message->slot, {message->payload.begin(), message->payload.end()}});
}

// The sender's call differs from this rank's, so the sender would wait for this rank for ever.
void MessageRouter::reject(Rank from, std::uint32_t epoch, std::string_view what,
                           std::string_view fault) {
  ++counters_.messages_rejected;
  failures_.fail(failures_.misfit(from, Code::invalid_argument,
                                  "{} sent {} for collective #{}, {}: call the same collective "
                                  "with the same sizes, types and algorithm on all ranks",
                                  names_.of(from), what, epoch, fault));
}

void MessageRouter::reject_late(Rank from, std::uint32_t epoch, std::string_view what) {
  reject(from, epoch, what, "which has ended at this rank");
}

void MessageRouter::reject_message(Rank from, const protocol::Message& message) {
  if (const char* const what = sign_of_a_different_call(message.kind))
    return reject(from, message.epoch, what, "and this rank's call uses no such message");
  ++counters_.messages_rejected;
}

// The sender's call differs from this rank's, so this rank would wait for data that never comes.
void MessageRouter::reject_chunk(Rank source, std::size_t bytes) {
  ++counters_.chunks_malformed;
  failures_.fail_with_other_sizes(source, bytes);
}

void MessageRouter::reject_data(const Operation& operation, Rank from, std::uint32_t slot) {
  ++counters_.messages_rejected;
  const Description& what = operation.description();
  failures_.fail(failures_.misfit(
      from, Code::invalid_argument,
      "message {1} from {0} does not exist in this rank's schedule for {2} by the algorithm '{3}': "
      "call the same collective with the same algorithm on all ranks",
      names_.of(from), slot, what.operation, what.algorithm));
}

void MessageRouter::on_message(Instant now, Rank from, std::span<const std::byte> bytes) {
  ++counters_.messages_received;
  const auto message = protocol::decode(bytes);
  if (!message) {
    ++counters_.messages_rejected;
    return;
  }
  if (message->kind == MessageKind::failed) return failures_.on_notice(from, *message);
  if (message->kind == MessageKind::closing) return closing_.on_announcement(from, *message);
  if (message->kind == MessageKind::delivered) {
    if (operations_.has_begun(message->epoch)) return retention_.on_ack(from, message->epoch);
    ++counters_.messages_rejected;
    return;
  }
  if (slots_.on_message(now, from, *message)) return;
  if (Operation* operation = operations_.find(message->epoch)) {
    operation->on_message(now, from, *message);
  } else if (message->kind == MessageKind::refused) {
    // A refusal fails the communicator even if this rank has already ended the refused call, or has
    // not begun the call: an aggregator refuses a call as soon as the call records of two ranks
    // differ.
    failures_.fail(refusal_status(names_, from, *message));
  } else if (operations_.has_begun(message->epoch)) {
    if (message->kind == MessageKind::fetch_request) retention_.answer_late(now, from, *message);
    if (const char* const what = sign_of_a_different_call(message->kind))
      reject_late(from, message->epoch, what);
  } else if (unexpected_.size() < kMaxUnexpectedMessages) {
    unexpected_.keep(message->epoch, {from, *message});
  } else {
    // A message that exceeds the limit fails the communicator: the connection is reliable, so a
    // dropped message would never be sent again.
    failures_.fail(
        failures_.misfit(from, Code::peer_failed,
                         "{} sent a message for collective #{}, which this rank has not called, "
                         "and the limit of {} such messages is exceeded: call the same "
                         "collectives in the same order on all ranks",
                         names_.of(from), message->epoch, kMaxUnexpectedMessages));
  }
}

void MessageRouter::deliver_unexpected(Instant now, Operation& operation) {
  const std::uint32_t epoch = operation.epoch();
  for (const UnexpectedMessage& one : unexpected_.take(epoch)) {
    operation.on_message(now, one.from, one.message);
  }
  for (const UnexpectedData& one : unexpected_data_.take(epoch)) {
    unexpected_data_bytes_ -= stored_bytes(one.payload);
    operation.on_data(now, one.from, one.slot, one.payload);
  }
}

}  // namespace tutti::engine
