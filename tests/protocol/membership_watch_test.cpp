#include "protocol/membership_watch.hpp"

#include <gtest/gtest.h>

namespace tutti::protocol {
namespace {

using Verdict = MembershipWatch::Verdict;

constexpr std::uint32_t kRanks = 4;
constexpr Rank kSource{2};
constexpr std::uint32_t kLongBlock = MembershipWatch::kMissedChunks;
constexpr Instant kBegin{1'000};
constexpr Instant kLater = kBegin + MembershipWatch::kJoinTime;

/// Reports to the watch that `blocks` consecutive blocks of rank kSource, each of `chunks` chunks,
/// did not arrive by multicast. Returns the last verdict of the watch.
Verdict miss(MembershipWatch& watch, std::uint32_t blocks, std::uint32_t chunks, Instant now) {
  Verdict verdict = Verdict::none;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    watch.missed(kSource, chunks);
    verdict = watch.judge(now);
  }
  return verdict;
}

TEST(MembershipWatch, LongBlocksMissedInARow_leadToOneRejoin) {
  MembershipWatch watch(kRanks);
  EXPECT_FALSE(watch.suspects());
  EXPECT_EQ(miss(watch, MembershipWatch::kMissedCollectives - 1, kLongBlock, kBegin),
            Verdict::none);
  EXPECT_TRUE(watch.suspects());
  EXPECT_TRUE(watch.suspects(kSource));
  EXPECT_FALSE(watch.suspects(rank_of(index(kSource) + 1)));
  EXPECT_EQ(miss(watch, 1, kLongBlock, kBegin), Verdict::rejoin);
  EXPECT_EQ(watch.suspect(), kSource);
  EXPECT_TRUE(watch.suspects(kSource));
  EXPECT_EQ(miss(watch, 10, kLongBlock, kLater - Nanoseconds(1)), Verdict::none);
}

TEST(MembershipWatch, MissedShortBlocks_withEnoughChunksInTotal_leadToARejoin) {
  MembershipWatch watch(kRanks);
  EXPECT_EQ(miss(watch, MembershipWatch::kMissedChunks - 1, 1, kBegin), Verdict::none);
  EXPECT_EQ(miss(watch, 1, 1, kBegin), Verdict::rejoin);
}

TEST(MembershipWatch, SourceMissedSeveralTimes_countsAsLost_untilItIsHeard) {
  MembershipWatch watch(kRanks);
  miss(watch, MembershipWatch::kMissedCollectives - 1, 1, kBegin);
  EXPECT_FALSE(watch.lost());
  miss(watch, 1, 1, kBegin);
  EXPECT_TRUE(watch.lost());
  watch.heard(kSource);
  EXPECT_FALSE(watch.lost());
}

TEST(MembershipWatch, ChunkOfTheMissedSource_resetsTheCountOfMissedBlocks) {
  MembershipWatch watch(kRanks);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(miss(watch, MembershipWatch::kMissedCollectives - 1, kLongBlock, kBegin),
              Verdict::none);
    watch.heard(kSource);
    EXPECT_FALSE(watch.suspects());
  }
}

TEST(MembershipWatch, ChunkOfAnotherSource_doesNotResetTheCountOfMissedBlocks) {
  MembershipWatch watch(kRanks);
  miss(watch, MembershipWatch::kMissedCollectives - 1, kLongBlock, kBegin);
  watch.heard(rank_of(1));
  EXPECT_EQ(miss(watch, 1, kLongBlock, kBegin), Verdict::rejoin);
}

TEST(MembershipWatch, SourceHeardAfterARejoin_thenMissedAgain_leadsToANewRejoin) {
  MembershipWatch watch(kRanks);
  EXPECT_EQ(miss(watch, 3, kLongBlock, kBegin), Verdict::rejoin);
  watch.heard(kSource);
  EXPECT_FALSE(watch.lost());
  EXPECT_EQ(miss(watch, 3, kLongBlock, kLater), Verdict::rejoin);
}

TEST(MembershipWatch, SourceMissedAfterTheRejoin_isReportedOnce_andRejoinsBecomeRare) {
  MembershipWatch watch(kRanks);
  EXPECT_EQ(miss(watch, 3, kLongBlock, kBegin), Verdict::rejoin);
  EXPECT_EQ(miss(watch, 3, kLongBlock, kLater), Verdict::rejoin_and_report);
  EXPECT_TRUE(watch.lost());
  int rejoins = 0;
  Instant now = kLater;
  for (int seconds = 0; seconds < 3600; ++seconds) {
    now = now + Nanoseconds(1'000'000'000);
    const Verdict verdict = miss(watch, 1, kLongBlock, now);
    EXPECT_NE(verdict, Verdict::rejoin_and_report);
    rejoins += verdict == Verdict::rejoin ? 1 : 0;
  }
  EXPECT_GE(rejoins, 10);
  EXPECT_LE(rejoins, 20);
}

TEST(MembershipWatch, UnknownRanksAndEmptyBlocks_areIgnored) {
  MembershipWatch watch(kRanks);
  watch.missed(rank_of(kRanks), kLongBlock);
  watch.missed(kSource, 0);
  watch.heard(rank_of(kRanks));
  EXPECT_FALSE(watch.suspects());
}

}  // namespace
}  // namespace tutti::protocol
