#include "engine/exchange/slot_recovery.hpp"

#include <algorithm>

namespace tutti::engine {

using protocol::MessageKind;

namespace {

// Bit in the argument of MessageKind::slot_nack: the entry must be sent over the reliable
// connection. The lower half of the argument then is the epoch of a collective, and the entry is
// sent as data of this collective.
constexpr std::uint64_t kReliably = std::uint64_t{1} << 32;

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
      on_acked(from, message.epoch);
      return true;
    default:
      return false;
  }
}

/// Sends this rank's entry again, by multicast or over the reliable connection as the request
/// demands; false if this rank has no such entry, or has already sent it over that connection.
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
  if (slots_ == nullptr) return;
  for (const Rank rank : still_open(slots_->awaited_acks()))
    outbox_.send(rank, MessageKind::slot_ack_request, 0);
  messages_.send(now, outbox_);
}

std::vector<Rank> SlotRecovery::unacked() const {
  return slots_ == nullptr ? std::vector<Rank>() : still_open(slots_->unacked());
}

/// Those of `ranks` that have not closed.
std::vector<Rank> SlotRecovery::still_open(std::vector<Rank> ranks) const {
  std::erase_if(ranks, [this](Rank one) { return closed_.contains(one); });
  return ranks;
}

}  // namespace tutti::engine
