#include "protocol/ready_barrier.hpp"

#include <bit>

namespace tutti::protocol {

ReadyBarrier::ReadyBarrier(Rank me, std::uint32_t size, std::uint32_t epoch)
    : me_(index(me)), size_(size), epoch_(epoch) {
  power_ = std::bit_floor(size);
  rounds_ = static_cast<std::uint32_t>(std::countr_zero(power_));
}

void ReadyBarrier::start(Outbox& outbox) {
  started_ = true;
  if (folded()) {
    outbox.send(rank_of(me_ - power_), MessageKind::barrier, epoch_, kFold);
    return;
  }
  advance(outbox);
}

bool ReadyBarrier::on_message(Rank from, std::uint64_t round, Outbox& outbox) {
  const std::uint32_t sender = index(from);
  const bool legal = (round == kFold && !folded() && sender == me_ + power_) ||
                     (round == kUnfold && folded() && sender == me_ - power_) ||
                     (round < rounds_ && !folded() && from == partner(static_cast<std::uint32_t>(round)));
  if (!legal) return false;
  if (round == kUnfold) {
    done_ = true;
    return true;
  }
  arrived_ |= std::uint64_t{1} << round;
  if (started_) advance(outbox);
  return true;
}

void ReadyBarrier::advance(Outbox& outbox) {
  if (done_) return;
  const bool fold_arrived = (arrived_ >> kFold & 1) != 0;
  if (has_folded_partner() && !fold_arrived) return;
  // Round r's message says that 2^r ranks are ready, so it waits for round r-1's.
  while (next_round_ < rounds_ && (next_round_ == 0 || (arrived_ >> (next_round_ - 1) & 1) != 0)) {
    outbox.send(partner(next_round_), MessageKind::barrier, epoch_, next_round_);
    ++next_round_;
  }
  const bool last_arrived = rounds_ == 0 || (arrived_ >> (rounds_ - 1) & 1) != 0;
  if (next_round_ < rounds_ || !last_arrived) return;
  done_ = true;
  if (has_folded_partner()) {
    outbox.send(rank_of(me_ + power_), MessageKind::barrier, epoch_, kUnfold);
  }
}

}  // namespace tutti::protocol
