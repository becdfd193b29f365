#include "engine/exchange/slot_recovery.hpp"

#include <algorithm>

namespace tutti::engine {

using protocol::MessageKind;

namespace {

// Bit of the argument of MessageKind::slot_nack: the sender wants the entry over its reliable
// connection, as data of the collective whose epoch is the lower half of the argument.
constexpr std::uint64_t kReliably = std::uint64_t{1} << 32;

// Bit of the argument of MessageKind::slot_ack: the sender closes and answers no more requests. The
// upper half of the argument is then the epoch of the first collective that it has not begun.
constexpr std::uint64_t kCloses = 1;

}  // namespace

bool SlotRecovery::on_message(Instant now, Rank from, const protocol::Message& message) {
  switch (message.kind) {
    case MessageKind::slot_nack:
      if (slots_ != nullptr && answer(now, from, message)) ++counters_.slot_entries_resent;
      return true;
    case MessageKind::slot_ack_request:
      if (slots_ != nullptr) outbox_.send(from, MessageKind::slot_ack, slots_->acked());
      messages_.send(now, outbox_);
      return true;
    case MessageKind::slot_ack:
      if (slots_ != nullptr) slots_->on_acked(from, message.epoch);
      if ((message.argument & kCloses) != 0 && !has_closed(from)) {
        closed_.push_back({from, static_cast<std::uint32_t>(message.argument >> 32)});
        peers_.unwatch(from);
      }
      return true;
    default:
      return false;
  }
}

/// Sends this rank's entry again, by multicast or over the reliable connection as the request
/// demands; false if this rank has no such entry or has already sent it.
bool SlotRecovery::answer(Instant now, Rank from, const protocol::Message& request) {
  if ((request.argument & kReliably) == 0) return slots_->resend(request.epoch);
  std::span<const std::byte> rest = slots_->entry(request.epoch);
  if (rest.empty() || index(from) >= size_ || answered_[index(from)] == request.epoch) return false;
  answered_[index(from)] = request.epoch;
  const auto epoch = static_cast<std::uint32_t>(request.argument);
  for (std::uint32_t part = 0; !rest.empty(); ++part) {
    const auto bytes = rest.first(std::min(messages_.max_data_bytes(), rest.size()));
    rest = rest.subspan(bytes.size());
    messages_.send_data(now, from, epoch, rest.empty() ? part | kLastPart : part, bytes);
  }
  return true;
}

void SlotRecovery::request_entries(Instant now, std::span<const Rank> ranks, std::uint32_t epoch,
                                   Way way) {
  const std::uint64_t argument = way == Way::reliable ? kReliably | epoch : 0;
  if (way == Way::reliable) {
    requests_reliably_ = true;
    requested_epoch_ = epoch;
  }
  for (const Rank rank : ranks) {
    outbox_.send(rank, MessageKind::slot_nack, slots_->exchange(), argument);
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

void SlotRecovery::announce_close(Instant now, std::uint32_t next_epoch) {
  if (slots_ == nullptr || slots_->exchange() == 0) return;
  for (std::uint32_t r = 0; r < size_; ++r) {
    if (rank_of(r) == me_ || has_closed(rank_of(r))) continue;
    outbox_.send(rank_of(r), MessageKind::slot_ack, slots_->acked(),
                 std::uint64_t{next_epoch} << 32 | kCloses);
  }
  messages_.send(now, outbox_);
}

bool SlotRecovery::has_closed(Rank rank) const {
  return std::any_of(closed_.begin(), closed_.end(),
                     [rank](const Closed& one) { return one.rank == rank; });
}

Rank SlotRecovery::closed_before(std::uint32_t epoch) const {
  for (const Closed& one : closed_) {
    if (!circular_before(epoch, one.next_epoch)) return one.rank;
  }
  return kNoRank;
}

}  // namespace tutti::engine
