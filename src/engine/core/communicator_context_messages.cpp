// The messages that a communicator exchanges with other ranks over reliable connections.
#include "base/error.hpp"
#include "engine/aggregate/window_plan.hpp"
#include "engine/core/communicator_context.hpp"

namespace tutti::engine {

using protocol::Message;
using protocol::MessageKind;

namespace {

constexpr std::size_t kMaxPendingMessages = 1 << 16;

}  // namespace

void CommunicatorContext::on_completion(Instant now, const device::Completion& completion) {
  switch (completion.opcode) {
    case device::Opcode::receive:
      on_arrival(now, completion);
      return;
    case device::Opcode::send:
      messages_.on_sent(completion.work_id);
      if (completion.code == Code::peer_failed) failures_.on_peer_failure(completion);
      return;
    case device::Opcode::probe:
      probes_.push_back({completion.peer, static_cast<std::uint32_t>(completion.immediate)});
      return;
    case device::Opcode::failure:
      failures_.on_peer_failure(completion);
      return;
    default:
      // Work to a lost peer ends before the loss itself is reported; the cause is the same.
      if (completion.code == Code::peer_failed) {
        failures_.on_peer_failure(completion);
      } else if (Operation* operation =
                     operations_.find(static_cast<std::uint32_t>(completion.work_id >> 32))) {
        operation->on_completion(now, completion);
      }
  }
}

// An immediate carries no message: its data was written to memory that this rank has named.
void CommunicatorContext::on_arrival(Instant now, const device::Completion& completion) {
  if (completion.payload.empty()) {
    on_immediate(now, completion.peer, completion.immediate);
  } else if (protocol::is_data_message(completion.payload)) {
    on_data(now, completion.peer, completion.payload);
  } else {
    on_message(now, completion.peer, completion.payload);
  }
}

void CommunicatorContext::on_immediate(Instant now, Rank from, std::uint64_t immediate) {
  ++counters_.messages_received;
  if (Operation* operation = operations_.find(static_cast<std::uint32_t>(immediate >> 32))) {
    operation->on_immediate(now, from, static_cast<std::uint32_t>(immediate));
  } else {
    ++counters_.messages_rejected;
  }
}

void CommunicatorContext::on_data(Instant now, Rank from, std::span<const std::byte> bytes) {
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
    ++counters_.messages_rejected;
    return;
  }
  pending_data_bytes_ += bytes.size();
  if (pending_data_bytes_ > 2 * BarrierPolicy::kMaxUnexpectedBytes) {
    failures_.fail(failure(
        Code::peer_failed,
        "{} sent data for collective #{}, which this rank has not called: at most {} bytes may be "
        "unexpected",
        names_.of(from), message->epoch, 2 * BarrierPolicy::kMaxUnexpectedBytes));
    return;
  }
  pending_data_.keep(message->epoch,
                     {from, message->slot, {message->payload.begin(), message->payload.end()}});
}

void CommunicatorContext::reject_data(const Operation& operation, Rank from, std::uint32_t slot) {
  reject_message();
  const Description& what = operation.description();
  failures_.fail(
      failure(Code::invalid_argument,
              "{} sent data in slot {}, which {} by {} does not have: call the same collective "
              "with the same algorithm on all ranks",
              names_.of(from), slot, what.operation, what.algorithm));
}

void CommunicatorContext::on_message(Instant now, Rank from, std::span<const std::byte> bytes) {
  ++counters_.messages_received;
  const auto message = protocol::decode(bytes);
  if (!message) {
    ++counters_.messages_rejected;
    return;
  }
  if (message->kind == MessageKind::failed) return failures_.on_notice(from, *message);
  if (message->kind == MessageKind::delivered) {
    if (operations_.has_begun(message->epoch)) return retention_.on_ack(from, message->epoch);
    ++counters_.messages_rejected;
    return;
  }
  if (slots_.on_message(now, from, *message)) return;
  if (Operation* operation = operations_.find(message->epoch)) {
    operation->on_message(now, from, *message);
  } else if (operations_.has_begun(message->epoch)) {
    if (message->kind == MessageKind::fetch_request) retention_.answer_late(now, from, *message);
    // An aggregator may refuse a call that is already over at this rank, because it learns late
    // what was called.
    if (message->kind == MessageKind::refused)
      failures_.fail(refusal_status(names_.of(from), *message));
  } else if (pending_.size() < kMaxPendingMessages) {
    pending_.keep(message->epoch, {from, *message});
  } else {
    ++counters_.messages_rejected;
  }
}

/// Delivers messages that arrived before their collective began here.
void CommunicatorContext::deliver_pending(Instant now, Operation& operation) {
  const std::uint32_t epoch = operation.epoch();
  for (const PendingMessage& one : pending_.take(epoch)) {
    operation.on_message(now, one.from, one.message);
  }
  for (const PendingData& one : pending_data_.take(epoch)) {
    pending_data_bytes_ -= one.payload.size() + protocol::kDataHeaderBytes;
    operation.on_data(now, one.from, one.slot, one.payload);
  }
}

}  // namespace tutti::engine
