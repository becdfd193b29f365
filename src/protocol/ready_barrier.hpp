// The ready barrier (K3): recursive doubling over any number of ranks. Nobody sends data before
// everybody's receives are posted.
//
// With P not a power of two, the ranks above the largest power fold into the lower ones: each tells
// its partner that it is ready and is told the result at the end.
#pragma once

#include <array>
#include <cstdint>

#include "protocol/codec/message.hpp"
#include "protocol/send_schedule.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

class ReadyBarrier {
 public:
  /// `vote`: carried along and combined with everybody's.
  ReadyBarrier(Rank me, std::uint32_t size, std::uint32_t epoch, const RateVote& vote = {});

  void start(Outbox& outbox);
  /// A partner's message: its round and vote. False: nobody may send me that (a lie, or a bug).
  bool on_message(Rank from, std::uint64_t argument, Outbox& outbox);
  bool started() const { return started_; }
  bool done() const { return done_; }
  /// Everybody's votes combined; valid once done.
  const RateVote& vote() const { return vote_; }

  /// Rounds that a rank of a power-of-two group takes.
  std::uint32_t rounds() const { return rounds_; }

 private:
  static constexpr std::uint32_t kFold = 32;    ///< round number of "my folded rank is ready"
  static constexpr std::uint32_t kUnfold = 33;  ///< round number of "all are ready"

  bool folded() const { return me_ >= power_; }
  Rank partner(std::uint32_t round) const { return rank_of(me_ ^ (1u << round)); }
  bool has_folded_partner() const { return me_ + power_ < size_; }
  void advance(Outbox& outbox);
  void tell(Rank to, std::uint32_t round, Outbox& outbox) const;

  std::uint32_t me_;
  std::uint32_t size_;
  std::uint32_t epoch_;
  std::uint32_t rounds_ = 0;
  std::uint32_t power_ = 1;
  std::uint32_t next_round_ = 0;  ///< the round whose message was sent last, plus one
  std::uint64_t arrived_ = 0;     ///< bit a round
  RateVote vote_;
  std::array<RateVote, kUnfold + 1> votes_{};  ///< by round
  bool started_ = false;
  bool done_ = false;
};

}  // namespace tutti::protocol
