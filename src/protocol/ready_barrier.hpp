// The ready barrier ([Khalilov24] 3.3): recursive doubling over any number of ranks. No rank sends
// data before the receives of every rank are posted.
//
// Let P be the largest power of two that is at most the number of ranks. Recursive doubling runs
// among the ranks below P. Each rank r >= P first tells its partner, rank r - P, that rank r is
// ready. At the end the partner tells rank r that all ranks are ready.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "protocol/codec/message.hpp"
#include "protocol/send_schedule.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

class ReadyBarrier {
 public:
  /// `vote` is this rank's rate vote, which the barrier combines with those of the other ranks.
  ReadyBarrier(Rank me, std::uint32_t size, std::uint32_t epoch, const RateVote& vote = {});

  void start(Outbox& outbox);
  /// Handles a barrier message, whose argument contains the round and the rate vote. False if rank
  /// `from` must not send a message in this round.
  bool on_message(Rank from, std::uint64_t argument, Outbox& outbox);
  /// The ranks whose barrier messages this rank needs and has not received.
  std::vector<Rank> awaited() const;
  bool started() const { return started_; }
  bool done() const { return done_; }
  /// The combined rate vote of all ranks; valid once the barrier is done.
  const RateVote& vote() const { return vote_; }

  /// Number of rounds of recursive doubling: log2(P), with P as defined at the top of this file.
  std::uint32_t rounds() const { return rounds_; }

 private:
  /// Round number of the message by which a rank r >= P tells rank r - P that rank r is ready.
  static constexpr std::uint32_t kFold = 32;
  /// Round number of the message by which rank r - P tells a rank r >= P that all ranks are ready.
  static constexpr std::uint32_t kUnfold = 33;

  bool folded() const { return me_ >= power_; }
  Rank partner(std::uint32_t round) const { return rank_of(me_ ^ (1u << round)); }
  bool arrived(std::uint32_t round) const { return (arrived_ >> round & 1) != 0; }
  bool has_folded_partner() const { return me_ + power_ < size_; }
  void advance(Outbox& outbox);
  void send(Rank to, std::uint32_t round, Outbox& outbox) const;

  std::uint32_t me_;
  std::uint32_t size_;
  std::uint32_t epoch_;
  std::uint32_t rounds_ = 0;
  std::uint32_t power_ = 1;
  std::uint32_t next_round_ = 0;  ///< next round to send
  std::uint64_t arrived_ = 0;     ///< one bit for each round whose message has arrived
  RateVote vote_;
  std::array<RateVote, kUnfold + 1> votes_{};  ///< received votes, by round
  bool started_ = false;
  bool done_ = false;
};

}  // namespace tutti::protocol
