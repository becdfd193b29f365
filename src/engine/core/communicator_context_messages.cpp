// The messages that a communicator exchanges with other ranks over reliable connections.
#include <algorithm>

#include "base/error.hpp"
#include "engine/aggregate/window_plan.hpp"
#include "engine/core/communicator_context.hpp"

namespace tutti::engine {

using protocol::Message;
using protocol::MessageKind;

namespace {

constexpr std::size_t kMaxPendingMessages = 1 << 16;
constexpr std::uint64_t kGoes =
    1;  // argument of MessageKind::slot_ack: the sender closes and answers no more requests

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
  if (on_slot_message(now, from, *message)) return;
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

// ---- lossy slot exchanges

/// False: the message does not concern the slot exchange.
bool CommunicatorContext::on_slot_message(Instant now, Rank from, const Message& message) {
  switch (message.kind) {
    case MessageKind::slot_nack:
      if (slots_lossy_ && slot_exchange_->resend(message.epoch)) ++counters_.slot_entries_resent;
      return true;
    case MessageKind::slot_ack_request:
      if (slots_lossy_) outbox_.send(from, MessageKind::slot_ack, slot_exchange_->acked());
      messages_.send(now, outbox_);
      return true;
    case MessageKind::slot_ack:
      if (slots_lossy_) slot_exchange_->on_acked(from, message.epoch);
      if (message.argument == kGoes && !has_closed(from)) {
        closed_ranks_.push_back(from);
        peers_.unwatch(from);
      }
      return true;
    default:
      return false;
  }
}

void CommunicatorContext::request_entries(Instant now, std::span<const Rank> ranks) {
  for (const Rank rank : ranks) {
    outbox_.send(rank, MessageKind::slot_nack, slot_exchange_->exchange());
    ++counters_.slot_entries_requested;
  }
  messages_.send(now, outbox_);
}

void CommunicatorContext::request_slot_acks(Instant now) {
  for (const Rank rank : behind()) outbox_.send(rank, MessageKind::slot_ack_request, 0);
  messages_.send(now, outbox_);
}

/// Ranks that may miss an entry of this rank in a lossy slot exchange; a rank that has closed needs
/// none.
std::vector<Rank> CommunicatorContext::behind() const {
  if (!slots_lossy_) return {};
  std::vector<Rank> ranks = slot_exchange_->unacked();
  std::erase_if(ranks, [this](Rank one) { return has_closed(one); });
  return ranks;
}

bool CommunicatorContext::has_closed(Rank rank) const {
  return std::find(closed_ranks_.begin(), closed_ranks_.end(), rank) != closed_ranks_.end();
}

void CommunicatorContext::announce_close(Instant now) {
  if (!slots_lossy_ || slot_exchange_->exchange() == 0) return;
  for (std::uint32_t r = 0; r < size_; ++r) {
    if (rank_of(r) == rank_ || has_closed(rank_of(r))) continue;
    outbox_.send(rank_of(r), MessageKind::slot_ack, slot_exchange_->acked(), kGoes);
  }
  messages_.send(now, outbox_);
}

void CommunicatorContext::request_due_acks(Instant now) {
  constexpr Nanoseconds kRequestInterval{20'000'000};
  if (ask_acks_at_ > now) return;
  request_slot_acks(now);
  ask_acks_at_ = now + kRequestInterval;
}

void CommunicatorContext::part(Instant now) {
  retention_.send_acks(now);
  closing_ = true;
  for (std::uint32_t r = 0; r < size_; ++r) {
    if (!retention_.all_at(rank_of(r))) peers_.watch(rank_of(r));
  }
  if (!slots_lossy_) return;
  // Ranks that have not acknowledged are asked again until they do.
  ask_acks_at_ = now;
  for (const Rank rank : behind()) peers_.watch(rank);
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
