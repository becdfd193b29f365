#include "protocol/delivery_acks.hpp"

#include <algorithm>

#include "base/circular.hpp"

namespace tutti::protocol {

void DeliveryAcks::schedule(Instant now, Rank root, std::uint32_t epoch) {
  due_ = now + delay_;
  const auto pending = std::find_if(pending_.begin(), pending_.end(),
                                    [root](const Pending& one) { return one.root == root; });
  if (pending == pending_.end()) {
    pending_.push_back({root, epoch});
  } else {
    pending->epoch = epoch;
  }
}

std::uint32_t DeliveryAcks::send(Outbox& outbox) {
  for (const Pending& one : pending_) outbox.send(one.root, MessageKind::delivered, one.epoch);
  const auto sent = static_cast<std::uint32_t>(pending_.size());
  pending_.clear();
  due_ = kNever;
  return sent;
}

void DeliveryAcks::on_ack(Rank from, std::uint32_t epoch) {
  if (acked_.empty()) acked_.assign(size_, acked_by_all_);
  std::uint32_t& known = acked_[index(from)];
  if (circular_before(known, epoch)) known = epoch;
}

bool DeliveryAcks::has(Rank rank, std::uint32_t epoch) const {
  if (!circular_before(acked_by_all_, epoch)) return true;
  return !acked_.empty() && !circular_before(acked_[index(rank)], epoch);
}

bool DeliveryAcks::all_but(Rank me, std::uint32_t epoch) const {
  if (!circular_before(acked_by_all_, epoch)) return true;
  for (std::uint32_t r = 0; r < size_; ++r) {
    if (rank_of(r) != me && !has(rank_of(r), epoch)) return false;
  }
  return true;
}

void DeliveryAcks::begun_by_all(std::uint32_t epoch) {
  if (circular_before(acked_by_all_, epoch - 1)) acked_by_all_ = epoch - 1;
  // Raises every entry to at least acked_by_all_. Otherwise an entry that falls 2^31 epochs behind
  // would compare as a later epoch, because epochs wrap at 2^32.
  for (std::uint32_t& known : acked_) {
    if (circular_before(known, acked_by_all_)) known = acked_by_all_;
  }
  std::erase_if(pending_,
                [epoch](const Pending& one) { return circular_before(one.epoch, epoch); });
  if (pending_.empty()) due_ = kNever;
}

}  // namespace tutti::protocol
