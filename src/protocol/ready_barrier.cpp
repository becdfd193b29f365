#include "protocol/ready_barrier.hpp"

#include <bit>

namespace tutti::protocol {

namespace {

// The argument of a barrier message has the round in its low byte and the rate vote above it.
constexpr std::uint32_t kRoundBits = 8;

}  // namespace

ReadyBarrier::ReadyBarrier(Rank me, std::uint32_t size, std::uint32_t epoch, const RateVote& vote)
    : me_(index(me)), size_(size), epoch_(epoch), vote_(vote) {
  power_ = std::bit_floor(size);
  rounds_ = static_cast<std::uint32_t>(std::countr_zero(power_));
}

std::vector<Rank> ReadyBarrier::awaited() const {
  std::vector<Rank> ranks;
  if (done_) return ranks;
  if (folded()) return {rank_of(me_ - power_)};
  if (has_folded_partner() && !arrived(kFold)) ranks.push_back(rank_of(me_ + power_));
  for (std::uint32_t round = 0; round < rounds_; ++round) {
    if (!arrived(round)) ranks.push_back(partner(round));
  }
  return ranks;
}

void ReadyBarrier::start(Outbox& outbox) {
  started_ = true;
  if (folded()) {
    send(rank_of(me_ - power_), kFold, outbox);
    return;
  }
  advance(outbox);
}

void ReadyBarrier::send(Rank to, std::uint32_t round, Outbox& outbox) const {
  outbox.send(to, MessageKind::barrier, epoch_, vote_.pack() << kRoundBits | round);
}

bool ReadyBarrier::on_message(Rank from, std::uint64_t argument, Outbox& outbox) {
  const auto round = static_cast<std::uint32_t>(argument & ((1u << kRoundBits) - 1));
  const std::uint32_t sender = index(from);
  const bool legal = (round == kFold && !folded() && sender == me_ + power_) ||
                     (round == kUnfold && folded() && sender == me_ - power_) ||
                     (round < rounds_ && !folded() && from == partner(round));
  if (!legal) return false;
  votes_[round] = RateVote::unpack(argument >> kRoundBits);
  if (round == kUnfold) {
    vote_ = votes_[kUnfold];
    done_ = true;
    return true;
  }
  arrived_ |= std::uint64_t{1} << round;
  if (started_) advance(outbox);
  return true;
}

void ReadyBarrier::advance(Outbox& outbox) {
  if (done_) return;
  if (has_folded_partner() && !arrived(kFold)) return;
  if (has_folded_partner() && next_round_ == 0) vote_ = vote_.combined(votes_[kFold]);
  // The message of round r states that 2^r ranks are ready, so it is sent only after the message of
  // round r-1 has arrived.
  while (next_round_ < rounds_ && (next_round_ == 0 || arrived(next_round_ - 1))) {
    if (next_round_ > 0) vote_ = vote_.combined(votes_[next_round_ - 1]);
    send(partner(next_round_), next_round_, outbox);
    ++next_round_;
  }
  const bool last_arrived = rounds_ == 0 || arrived(rounds_ - 1);
  if (next_round_ < rounds_ || !last_arrived) return;
  done_ = true;
  if (rounds_ > 0) vote_ = vote_.combined(votes_[rounds_ - 1]);
  if (has_folded_partner()) send(rank_of(me_ + power_), kUnfold, outbox);
}

}  // namespace tutti::protocol
