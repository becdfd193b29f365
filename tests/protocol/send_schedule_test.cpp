#include "protocol/send_schedule.hpp"

#include <gtest/gtest.h>

namespace tutti::protocol {
namespace {

constexpr std::uint64_t kPlanned = 120'000'000;
constexpr Nanoseconds kShort{16'000'000};
constexpr Nanoseconds kLong{240'000'000};

TEST(LearnedRate, LearnedRate_belowTheMeasuredRate_risesToIt) {
  EXPECT_EQ(learned_rate(kPlanned, kPlanned + 5, kShort, false), kPlanned + 5);
}

TEST(LearnedRate, ShortDelayOfTheHostDoesNotLowerTheRate) {
  EXPECT_EQ(learned_rate(kPlanned, kPlanned * 95 / 100, kShort, false), kPlanned);
}

TEST(LearnedRate, LearnedRate_onASlowerNetwork_fallsInSmallSteps) {
  std::uint64_t rate = kPlanned;
  std::uint64_t before = 0;
  for (int vote = 0; vote < 40; ++vote) {
    before = rate;
    rate = learned_rate(rate, 80'000'000, kLong, false);
    EXPECT_GE(rate, before - before / 40);
  }
  EXPECT_EQ(rate, before) << "settled";
  EXPECT_GE(rate, 80'000'000u);
  EXPECT_LT(rate, 80'500'000u);
}

TEST(LearnedRate, LossLowersTheRateAtOnce) {
  EXPECT_EQ(learned_rate(kPlanned, 90'000'000, kShort, true), 90'000'000u);
}

constexpr std::uint64_t kBytes = 8 << 20;

TEST(SendSchedule, Senders_takeTurnsUntilTheFirstVote) {
  SendSchedule turns;
  EXPECT_FALSE(turns.next(kBytes).at_once);
  EXPECT_FALSE(turns.votes(kBytes)) << "the first collective has no measurement to vote on";
  EXPECT_FALSE(turns.next(kBytes).at_once);
  ASSERT_TRUE(turns.votes(kBytes));
  turns.adopt({.rate_kib = 1000, .link_bound = true, .lossy = false});
  const SendSchedule::Plan plan = turns.next(kBytes);
  EXPECT_TRUE(plan.at_once);
  EXPECT_EQ(plan.bytes_per_second, 1024'000u);
}

TEST(SendSchedule, VoteThatReportsLoss_makesSendersTakeTurnsAgain) {
  SendSchedule turns;
  turns.next(kBytes);
  turns.adopt({.rate_kib = 1000, .link_bound = true, .lossy = false});
  turns.adopt({.rate_kib = 1000, .link_bound = true, .lossy = true});
  EXPECT_FALSE(turns.next(kBytes).at_once);
}

TEST(SendSchedule, SendersOnAFastLink_areNotPaced) {
  SendSchedule turns;
  turns.next(kBytes);
  turns.next(kBytes);
  turns.adopt({.rate_kib = 5'000'000, .link_bound = false, .lossy = false});
  const SendSchedule::Plan plan = turns.next(kBytes);
  EXPECT_TRUE(plan.at_once);
  EXPECT_EQ(plan.bytes_per_second, 0u);
}

TEST(SendSchedule, SmallBlocks_areSentWithoutTurns_andAreNotMeasured) {
  SendSchedule turns;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(turns.next(SendSchedule::kSmallBytes).at_once);
  EXPECT_FALSE(turns.votes(SendSchedule::kSmallBytes));
  EXPECT_FALSE(turns.next(kBytes).at_once) << "small blocks must not count as measured collectives";
}

TEST(RateVote, CombinedVote_packedAndUnpacked_hasTheLowerRateAndAllFlags) {
  const RateVote one{.rate_kib = 5, .link_bound = false, .lossy = true};
  const RateVote other{.rate_kib = 9, .link_bound = true, .lossy = false};
  const RateVote both = RateVote::unpack(one.combined(other).pack());
  EXPECT_EQ(both.rate_kib, 5u);
  EXPECT_TRUE(both.link_bound);
  EXPECT_TRUE(both.lossy);
}

}  // namespace
}  // namespace tutti::protocol
