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
  if (message->kind == MessageKind::delivered) return on_delivery_ack(from, message->epoch);
  if (on_slot_message(now, from, *message)) return;
  if (Operation* operation = operations_.find(message->epoch)) {
    operation->on_message(now, from, *message);
  } else if (operations_.has_begun(message->epoch)) {
    if (message->kind == MessageKind::fetch_request) answer_late(now, from, *message);
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

/// Answers a rank that misses chunks of a collective that is over here.
void CommunicatorContext::answer_late(Instant now, Rank from, const Message& message) {
  if (retained_.holds(message.epoch)) {
    network_.observe_loss(true);
    return answer_from_copy(now, from, message);
  }
  Message answer = message;
  answer.kind = MessageKind::fetch_expired;
  outbox_.send(from, answer);
  messages_.send(now, outbox_);
}

// ---- retained blocks

bool CommunicatorContext::retains_copy_of(std::uint64_t broadcast_bytes) const {
  // Every receiver's ACK goes to the root itself.
  constexpr std::uint32_t kMaxReceivers = 64;
  return broadcast_bytes <= std::min(settings_.retain_bytes, settings_.window_bytes / 2) &&
         size_ > 1 && size_ <= kMaxReceivers;
}

void CommunicatorContext::retain_block(Instant now, std::uint32_t epoch,
                                       std::span<const std::byte> block) {
  retained_.keep(now, epoch, block);
  ++counters_.blocks_retained;
  // All ACKs may have arrived before the last chunk left here.
  retained_.release(delivery_acks_);
}

void CommunicatorContext::answer_from_copy(Instant now, Rank from, const Message& request) {
  if (retained_.holds(request.epoch)) counters_.retained_ranges_served += request.range_count;
  if (!retained_.ask(from, request, outbox_)) ++counters_.messages_rejected;
  messages_.send(now, outbox_);
}

void CommunicatorContext::on_delivery_ack(Rank from, std::uint32_t epoch) {
  if (!operations_.has_begun(epoch)) {
    ++counters_.messages_rejected;
    return;
  }
  delivery_acks_.on_ack(from, epoch);
  retained_.release(delivery_acks_);
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

/// Sends due delivery ACKs, and answers requests that arrived before the block was retained.
void CommunicatorContext::serve_retained(Instant now) {
  constexpr Nanoseconds kRequestInterval{20'000'000};
  if (ask_acks_at_ <= now) {
    request_slot_acks(now);
    ask_acks_at_ = now + kRequestInterval;
  }
  if (delivery_acks_.due() <= now) counters_.delivery_acks_sent += delivery_acks_.send(outbox_);
  if (retained_.next_deadline() <= now)
    counters_.retained_ranges_served += retained_.serve(now, delivery_acks_, outbox_);
  if (!outbox_.empty()) messages_.send(now, outbox_);
}

void CommunicatorContext::part(Instant now) {
  counters_.delivery_acks_sent += delivery_acks_.send(outbox_);
  messages_.send(now, outbox_);
  closing_ = true;
  for (std::uint32_t r = 0; r < size_; ++r) {
    if (!retained_.all_at(rank_of(r), delivery_acks_)) peers_.watch(rank_of(r));
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
