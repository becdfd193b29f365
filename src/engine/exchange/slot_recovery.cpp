#include "engine/exchange/slot_recovery.hpp"

#include <algorithm>

namespace tutti::engine {

using protocol::MessageKind;

namespace {

// Argument of MessageKind::slot_ack: the sender closes and answers no more requests.
constexpr std::uint64_t kCloses = 1;

}  // namespace

bool SlotRecovery::on_message(Instant now, Rank from, const protocol::Message& message) {
  switch (message.kind) {
    case MessageKind::slot_nack:
      if (slots_ != nullptr && slots_->resend(message.epoch)) ++counters_.slot_entries_resent;
      return true;
    case MessageKind::slot_ack_request:
      if (slots_ != nullptr) outbox_.send(from, MessageKind::slot_ack, slots_->acked());
      messages_.send(now, outbox_);
      return true;
    case MessageKind::slot_ack:
      if (slots_ != nullptr) slots_->on_acked(from, message.epoch);
      if (message.argument == kCloses && !has_closed(from)) {
        closed_ranks_.push_back(from);
        peers_.unwatch(from);
      }
      return true;
    default:
      return false;
  }
}

void SlotRecovery::request_entries(Instant now, std::span<const Rank> ranks) {
  for (const Rank rank : ranks) {
    outbox_.send(rank, MessageKind::slot_nack, slots_->exchange());
    ++counters_.slot_entries_requested;
  }
  messages_.send(now, outbox_);
}

void SlotRecovery::request_acks(Instant now) {
  for (const Rank rank : unacked()) outbox_.send(rank, MessageKind::slot_ack_request, 0);
  messages_.send(now, outbox_);
}

std::vector<Rank> SlotRecovery::unacked() const {
  if (slots_ == nullptr) return {};
  std::vector<Rank> ranks = slots_->unacked();
  std::erase_if(ranks, [this](Rank one) { return has_closed(one); });
  return ranks;
}

void SlotRecovery::announce_close(Instant now) {
  if (slots_ == nullptr || slots_->exchange() == 0) return;
  for (std::uint32_t r = 0; r < size_; ++r) {
    if (rank_of(r) == me_ || has_closed(rank_of(r))) continue;
    outbox_.send(rank_of(r), MessageKind::slot_ack, slots_->acked(), kCloses);
  }
  messages_.send(now, outbox_);
}

bool SlotRecovery::has_closed(Rank rank) const {
  return std::find(closed_ranks_.begin(), closed_ranks_.end(), rank) != closed_ranks_.end();
}

}  // namespace tutti::engine
