// Tests the overlap predictor, which predicts from the last calls whether an application computes
// after it starts a collective.
#include "runtime/progress/overlap_predictor.hpp"

#include <gtest/gtest.h>

namespace tutti::runtime {
namespace {

TEST(OverlapPredictor, SingleStartBeforeEachWait_predictsComputationAfterTheNextStart) {
  OverlapPredictor habit;
  for (int call = 0; call < 3; ++call) {
    EXPECT_TRUE(habit.begun());
    habit.waits();
  }
}

TEST(OverlapPredictor, TwoStartsBeforeTheWaits_predictTwoStartsAgain) {
  OverlapPredictor habit;
  EXPECT_TRUE(habit.begun()) << "there are no calls to predict from";
  EXPECT_FALSE(habit.begun());
  for (int call = 0; call < 3; ++call) {
    habit.waits();
    habit.waits();
    EXPECT_FALSE(habit.begun());
    EXPECT_FALSE(habit.begun());
  }
}

TEST(OverlapPredictor, PatternOfCalls_thatChanges_isLearnedAnew) {
  OverlapPredictor habit;
  habit.begun();
  habit.begun();
  habit.waits();
  EXPECT_FALSE(habit.begun());
  habit.waits();
  EXPECT_TRUE(habit.begun());
}

TEST(OverlapPredictor, StartsWithoutAWaitPredictMoreStarts) {
  OverlapPredictor habit;
  habit.begun();
  for (int call = 0; call < 3; ++call) EXPECT_FALSE(habit.begun());
}

TEST(OverlapPredictor, WaitForAnEarlierRequest_predictsNoComputation) {
  OverlapPredictor habit;
  habit.begun();
  habit.begun();
  habit.waits();
  habit.waits();
  EXPECT_FALSE(habit.begun());
}

}  // namespace
}  // namespace tutti::runtime
