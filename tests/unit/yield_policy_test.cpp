// Tests when a waiting thread yields its core. The value of `yield_interval` is the time between
// two yields, unless the last yield shows that the awaited rank needs this core.
#include "runtime/progress/yield_policy.hpp"

#include <gtest/gtest.h>

namespace tutti::runtime {
namespace {

constexpr Nanoseconds kInterval{10'000};

TEST(YieldPolicy, ThreadThatHasNotYielded_pollsForTheWholeInterval) {
  const YieldPolicy policy({.yield_interval = kInterval});
  EXPECT_EQ(policy.yield_interval(), kInterval);
}

TEST(YieldPolicy, ThreadWhoseLastYieldBroughtWork_yieldsAtOnce) {
  YieldPolicy policy({.yield_interval = kInterval});
  policy.polled_after_yield(true);
  EXPECT_EQ(policy.yield_interval(), Nanoseconds(0));
}

TEST(YieldPolicy, ThreadWhoseLastYieldBroughtNoWork_pollsForTheWholeIntervalAgain) {
  YieldPolicy policy({.yield_interval = kInterval});
  policy.polled_after_yield(true);
  policy.polled_after_yield(false);
  EXPECT_EQ(policy.yield_interval(), kInterval);
}

TEST(YieldPolicy, ThreadThatHasNotSlept_yieldsAfterAsMuchWorkAsLater) {
  constexpr Nanoseconds kWork{500'000};
  const YieldPolicy policy({.yield_after = kWork});
  const EnginePoller no_operations;
  for (const bool slept : {false, true}) {
    EXPECT_EQ(policy.yield_after(slept, no_operations), kWork) << "slept: " << slept;
  }
}

}  // namespace
}  // namespace tutti::runtime
