// Tests the container that keeps items by epoch, also where the epochs wrap.
#include "engine/core/by_epoch.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace tutti::engine {
namespace {

TEST(ByEpoch, EachEpochGetsItsItemsInOrderOfArrival) {
  ByEpoch<int> kept;
  for (int i = 0; i < 6; ++i) kept.keep(7 + static_cast<std::uint32_t>(i % 2), i);
  EXPECT_EQ(kept.size(), 6u);
  EXPECT_EQ(kept.take(8), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(kept.take(8), std::vector<int>{});
  EXPECT_EQ(kept.take(7), (std::vector<int>{0, 2, 4}));
  EXPECT_TRUE(kept.empty());
}

TEST(ByEpoch, TakeBefore_returnsTheItemsOfEarlierEpochs_evenIfEpochsWrap) {
  ByEpoch<std::unique_ptr<int>> kept;
  for (const std::uint32_t epoch : {UINT32_MAX - 1, UINT32_MAX, 0u, 1u}) {
    kept.keep(epoch, std::make_unique<int>(static_cast<int>(epoch)));
  }
  const auto over = kept.take_before(0);
  ASSERT_EQ(over.size(), 2u);
  EXPECT_EQ(*over[0], -2);
  EXPECT_EQ(*over[1], -1);
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_TRUE(kept.take_before(0).empty());
  EXPECT_EQ(*kept.take(1).at(0), 1);
}

}  // namespace
}  // namespace tutti::engine
