#include "protocol/delivery_acks.hpp"

#include <algorithm>

#include "base/circular.hpp"

namespace tutti::protocol {

void DeliveryAcks::owe(Instant now, Rank root, std::uint32_t epoch) {
  due_ = now + delay_;
  const auto owed = std::find_if(owed_.begin(), owed_.end(),
                                 [root](const Owed& one) { return one.root == root; });
  if (owed == owed_.end()) {
    owed_.push_back({root, epoch});
  } else {
    owed->epoch = epoch;
  }
}

std::uint32_t DeliveryAcks::tell(Outbox& outbox) {
  for (const Owed& one : owed_) outbox.send(one.root, MessageKind::have, one.epoch);
  const auto told = static_cast<std::uint32_t>(owed_.size());
  owed_.clear();
  due_ = kNever;
  return told;
}

void DeliveryAcks::on_have(Rank from, std::uint32_t epoch) {
  if (have_.empty()) have_.assign(size_, settled_);
  std::uint32_t& known = have_[index(from)];
  if (circular_before(known, epoch)) known = epoch;
}

bool DeliveryAcks::has(Rank rank, std::uint32_t epoch) const {
  if (!circular_before(settled_, epoch)) return true;
  return !have_.empty() && !circular_before(have_[index(rank)], epoch);
}

bool DeliveryAcks::all_but(Rank me, std::uint32_t epoch) const {
  if (!circular_before(settled_, epoch)) return true;
  for (std::uint32_t r = 0; r < size_; ++r) {
    if (rank_of(r) != me && !has(rank_of(r), epoch)) return false;
  }
  return true;
}

void DeliveryAcks::begun_by_all(std::uint32_t epoch) {
  if (circular_before(settled_, epoch - 1)) settled_ = epoch - 1;
  std::erase_if(owed_, [this](const Owed& one) { return !circular_before(settled_, one.epoch); });
  if (owed_.empty()) due_ = kNever;
}

}  // namespace tutti::protocol
