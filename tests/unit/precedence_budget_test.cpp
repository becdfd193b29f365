// Tests the processor time that a thread may spend at real-time priority: a share of the elapsed
// time, saved up to a limit.
#include "runtime/progress/realtime_budget.hpp"

#include <gtest/gtest.h>

namespace tutti::runtime {
namespace {

constexpr Nanoseconds kMost{4'000'000};
constexpr Nanoseconds kStep{100'000};

class Budget : public testing::Test {
 protected:
  bool work(Nanoseconds time) { return pass(time, true); }
  bool sleep(Nanoseconds time) { return pass(time, false); }

  RealtimeBudget budget_{0.25, kMost};

 private:
  bool pass(Nanoseconds time, bool worked) {
    if (!begun_) budget_.pass(now_, false);
    begun_ = true;
    now_ = now_ + time;
    return budget_.pass(now_, worked);
  }

  Instant now_{1'000'000'000};
  bool begun_ = false;
};

TEST_F(Budget, WorkWithinTheShareOfTime_neverExhaustsTheBudget) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(work(kStep)) << i;
    ASSERT_TRUE(sleep(kStep * 3)) << i;
  }
}

TEST_F(Budget, ContinuousWorkExhaustsTheBudget) {
  Nanoseconds worked{0};
  while (work(kStep)) {
    worked += kStep;
    ASSERT_LT(worked, kMost * 2);
  }
  // While the thread works, a quarter of the elapsed time is added to the budget again.
  EXPECT_GE(worked + kStep, kMost * 4 / 3);
  // The budget can be used again once half of its limit is saved. A thread that sleeps saves a
  // quarter of the elapsed time.
  Nanoseconds slept{0};
  while (!sleep(kStep)) {
    slept += kStep;
    ASSERT_LT(slept, kMost * 4);
  }
  EXPECT_GE(slept + kStep, kMost * 2);
  EXPECT_TRUE(work(kStep));
}

TEST_F(Budget, SavedTime_neverExceedsTheLimitOfTheBudget) {
  ASSERT_TRUE(sleep(kMost * 1000));
  EXPECT_TRUE(work(kMost));
  EXPECT_FALSE(work(kMost));
}

TEST_F(Budget, BudgetOfZero_isExhaustedAtOnce) {
  RealtimeBudget none(0, Nanoseconds(0));
  const Instant now{1'000'000'000};
  none.pass(now, false);
  EXPECT_FALSE(none.pass(now + kStep, true));
}

}  // namespace
}  // namespace tutti::runtime
