#include "protocol/clock_bounds.hpp"

#include <gtest/gtest.h>

#include "base/random.hpp"

namespace tutti::protocol {
namespace {

constexpr Instant at(std::int64_t nanoseconds) { return {nanoseconds}; }

TEST(ClockBounds, Offset_afterOneExchange_isTheMiddleOfTheBounds) {
  ClockBounds bounds;
  bounds.add(at(1'000), at(51'100), at(1'200));  // the other clock is 50'000 nanoseconds ahead
  EXPECT_EQ(bounds.exchanges(), 1u);
  EXPECT_EQ(bounds.offset(), Nanoseconds(50'000));
  EXPECT_EQ(bounds.error(), Nanoseconds(100));
  EXPECT_FALSE(bounds.may_be_equal());
}

TEST(ClockBounds, SlowExchangesDoNotWidenTheBounds) {
  ClockBounds bounds;
  bounds.add(at(0), at(70), at(100));
  bounds.add(at(1'000), at(9'000), at(10'000));
  EXPECT_LE(bounds.error(), Nanoseconds(50));
  EXPECT_TRUE(bounds.may_be_equal());
}

TEST(ClockBounds, TwoExchanges_eachSlowInOneDirection_narrowTheBounds) {
  // The first exchange proves that the clock of the other rank is at most 10 nanoseconds ahead. The
  // second exchange proves that the clock is at most 10 nanoseconds behind.
  ClockBounds bounds;
  bounds.add(at(0), at(10), at(1'000));
  bounds.add(at(2'000), at(2'990), at(3'000));
  EXPECT_EQ(bounds.offset(), Nanoseconds(0));
  EXPECT_EQ(bounds.error(), Nanoseconds(10));
}

TEST(ClockBounds, BoundsContainTheTrueOffset) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::int64_t truth = static_cast<std::int64_t>(draw(seed, 0) % 2'000'001) - 1'000'000;
    ClockBounds bounds;
    std::int64_t now = 0;
    Nanoseconds before{INT64_MAX};
    for (std::uint64_t i = 0; i < 16; ++i) {
      const auto there = static_cast<std::int64_t>(draw(seed, 3 * i + 1) % 50'000);
      const auto back = static_cast<std::int64_t>(draw(seed, 3 * i + 2) % 50'000);
      bounds.add(at(now), at(now + there + truth), at(now + there + back));
      EXPECT_LE(std::abs(bounds.offset().count() - truth), bounds.error().count()) << seed;
      EXPECT_LE(bounds.error(), before) << seed;
      before = bounds.error();
      now += there + back;
    }
  }
}

}  // namespace
}  // namespace tutti::protocol
