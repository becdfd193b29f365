#include "protocol/sequencer.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::protocol {
namespace {

TEST(Sequencer, StepOfARank_isItsPositionInItsChain) {
  for (std::uint32_t size = 1; size <= 64; ++size) {
    for (std::uint32_t chains = 1; chains <= size; ++chains) {
      SCOPED_TRACE(testing::Message() << size << " ranks in " << chains << " chains");
      const Sequencer sequencer(size, chains);
      const std::uint32_t steps = (size + chains - 1) / chains;
      ASSERT_EQ(sequencer.steps(), steps);
      ASSERT_LE(sequencer.chains(), chains);
      if (size % chains == 0) {
        ASSERT_EQ(sequencer.chains(), chains);
      }
      for (std::uint32_t r = 0; r < size; ++r) {
        // At step i the ranks i, R+i, 2R+i, ... send, where R is the number of steps.
        ASSERT_EQ(sequencer.step_of(rank_of(r)), r % steps);
        ASSERT_EQ(sequencer.chain_of(rank_of(r)), r / steps);
      }
    }
  }
}

TEST(Sequencer, Chains_divideTheRanksIntoConsecutiveRuns) {
  for (std::uint32_t size = 1; size <= 64; ++size) {
    for (std::uint32_t chains = 1; chains <= size; ++chains) {
      SCOPED_TRACE(testing::Message() << size << " ranks in " << chains << " chains");
      const Sequencer sequencer(size, chains);
      std::uint32_t expected = 0;
      for (std::uint32_t c = 0; c < sequencer.chains(); ++c) {
        Rank rank = sequencer.chain_begin(c);
        Rank before = kNoRank;
        ASSERT_TRUE(sequencer.first(rank));
        while (rank != kNoRank) {
          ASSERT_EQ(index(rank), expected++);
          ASSERT_EQ(sequencer.predecessor(rank), before);
          ASSERT_EQ(sequencer.first(rank), before == kNoRank);
          before = rank;
          rank = sequencer.successor(rank);
        }
        ASSERT_EQ(index(sequencer.chain_end(c)), expected);
      }
      ASSERT_EQ(expected, size);
    }
  }
}

TEST(Sequencer, MoreChainsThanRanks_areLimitedToOnePerRank) {
  const Sequencer sequencer(5, 9);
  EXPECT_EQ(sequencer.chains(), 5u);
  EXPECT_EQ(sequencer.steps(), 1u);
  EXPECT_EQ(Sequencer(7, 0).chains(), 1u);
}

}  // namespace
}  // namespace tutti::protocol
