// Tests the replay window at its edges, and by comparison with a set of all counters received.
#include "wire/replay_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>

namespace tutti::wire {
namespace {

constexpr std::uint64_t kSize = ReplayWindow::kSize;

/// Receives an authentic datagram with this counter; true if the datagram is accepted.
bool receive(ReplayWindow& window, std::uint64_t counter) {
  if (!window.fresh(counter)) return false;
  window.take(counter);
  return true;
}

TEST(ReplayWindow, CountersInOrder_areAcceptedOnce) {
  ReplayWindow window;
  for (std::uint64_t counter = 1; counter < 3 * kSize; ++counter) {
    EXPECT_TRUE(receive(window, counter)) << counter;
    EXPECT_FALSE(receive(window, counter)) << counter;
  }
}

TEST(ReplayWindow, CounterZero_isNeverAccepted) {
  ReplayWindow window;
  EXPECT_FALSE(receive(window, 0));
  EXPECT_TRUE(receive(window, 1));
  EXPECT_FALSE(receive(window, 0));
}

TEST(ReplayWindow, OldestCounterOfTheWindow_isAccepted_andItsPredecessorIsNot) {
  for (std::uint64_t greatest = kSize; greatest < kSize + 200; ++greatest) {
    ReplayWindow window;
    ASSERT_TRUE(receive(window, greatest));
    EXPECT_FALSE(receive(window, greatest - kSize)) << greatest;
    EXPECT_TRUE(receive(window, greatest - kSize + 1)) << greatest;
    EXPECT_FALSE(receive(window, greatest - kSize + 1)) << greatest;
  }
}

TEST(ReplayWindow, UsedCounters_afterAJump_areRefused_andSkippedOnesAreAccepted) {
  for (const std::uint64_t jump :
       {std::uint64_t{1}, std::uint64_t{63}, std::uint64_t{64}, kSize - 1, kSize, kSize + 63,
        kSize + 64, kSize + 65, 10 * kSize}) {
    ReplayWindow window;
    for (std::uint64_t counter = 1; counter <= 2 * kSize; ++counter) receive(window, counter);
    ASSERT_TRUE(receive(window, 2 * kSize + jump));
    for (std::uint64_t counter = 1; counter <= 2 * kSize; ++counter) {
      EXPECT_FALSE(receive(window, counter)) << "jump " << jump << ", counter " << counter;
    }
    const std::uint64_t between = 2 * kSize + std::min(jump - 1, kSize - 1);
    if (between > 2 * kSize && 2 * kSize + jump - between < kSize) {
      EXPECT_TRUE(receive(window, between));
      EXPECT_FALSE(receive(window, between));
    }
  }
}

TEST(ReplayWindow, CountersNearTheEndOfTheirRange_areAcceptedOnce) {
  ReplayWindow window;
  for (std::uint64_t back = 3 * kSize; back > 0; --back) {
    EXPECT_TRUE(receive(window, UINT64_MAX - back + 1));
    EXPECT_FALSE(receive(window, UINT64_MAX - back + 1));
  }
}

TEST(ReplayWindow, RandomCounters_areAccepted_exactlyIfNewAndNotTooOld) {
  std::mt19937_64 random(7);
  for (int run = 0; run < 20; ++run) {
    ReplayWindow window;
    std::set<std::uint64_t> taken;
    std::uint64_t greatest = 0;
    std::uint64_t accepted = 0;
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t spread = random() % 3 == 0 ? 2 * kSize : 100;
      const std::uint64_t counter = greatest + 30 - std::min(greatest + 29, random() % spread);
      const bool old = counter + kSize <= greatest;
      const bool expected = !old && !taken.contains(counter);
      ASSERT_EQ(receive(window, counter), expected) << counter << " after " << greatest;
      if (!expected) continue;
      taken.insert(counter);
      greatest = std::max(greatest, counter);
      ++accepted;
    }
    EXPECT_EQ(window.greatest(), greatest);
    EXPECT_GT(accepted, 1000u);
  }
}

}  // namespace
}  // namespace tutti::wire
