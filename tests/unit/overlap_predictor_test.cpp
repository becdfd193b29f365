// Tests the overlap predictor, which predicts from the last calls whether an application computes
// after it starts a collective, or waits for it at once.
#include "runtime/progress/overlap_predictor.hpp"

#include <gtest/gtest.h>

namespace tutti::runtime {
namespace {

/// An application with a simulated clock.
class Application {
 public:
  bool begins() { return predictor_.begun(now_); }
  void sends() { predictor_.started(now_); }
  void computes(Nanoseconds time = Nanoseconds(1'000'000)) { now_ = now_ + time; }
  void yields() { predictor_.yielded(now_); }
  void waits() { predictor_.waits(now_); }
  void computes_with_calls_in_flight() { predictor_.forget_waits(); }
  void begins_and_waits(Nanoseconds after) {
    begins();
    computes(after);
    waits();
  }
  bool waits_soon() const { return predictor_.waits_soon(); }

 private:
  OverlapPredictor predictor_;
  Instant now_{1'000'000'000};
};

constexpr Nanoseconds kSoon = OverlapPredictor::kSoon;
constexpr Nanoseconds kLate = kSoon + Nanoseconds(1);

TEST(OverlapPredictor, OneStartPerWait_predictsComputationAfterTheNextStart) {
  Application application;
  for (int call = 0; call < 5; ++call) {
    EXPECT_TRUE(application.begins());
    application.computes();
    application.waits();
  }
}

TEST(OverlapPredictor, TwoStartsBeforeTheWaits_predictTwoStartsAgain) {
  Application application;
  EXPECT_TRUE(application.begins()) << "there are no calls to predict from";
  EXPECT_FALSE(application.begins());
  for (int call = 0; call < 3; ++call) {
    application.computes();
    application.waits();
    application.waits();
    EXPECT_FALSE(application.begins());
    EXPECT_FALSE(application.begins());
  }
}

TEST(OverlapPredictor, PatternOfCalls_thatChanges_isLearnedAnew) {
  Application application;
  application.begins();
  application.begins();
  application.waits();
  EXPECT_FALSE(application.begins());
  application.waits();
  EXPECT_TRUE(application.begins());
}

TEST(OverlapPredictor, StartsWithoutAWaitPredictMoreStarts) {
  Application application;
  application.begins();
  for (int call = 0; call < 3; ++call) EXPECT_FALSE(application.begins());
}

TEST(OverlapPredictor, WaitForAnEarlierRequest_predictsNoComputation) {
  Application application;
  application.begins();
  application.begins();
  application.waits();
  application.waits();
  EXPECT_FALSE(application.begins());
}

TEST(OverlapPredictor, ThreePromptWaits_predictAPromptWait_andNoComputation) {
  Application application;
  for (int call = 0; call < 3; ++call) {
    EXPECT_FALSE(application.waits_soon());
    application.begins_and_waits(kSoon);
  }
  EXPECT_TRUE(application.waits_soon());
  EXPECT_FALSE(application.begins());
}

TEST(OverlapPredictor, LateWait_endsThePredictionOfPromptWaits) {
  Application application;
  for (int call = 0; call < 5; ++call) application.begins_and_waits(kSoon);
  application.begins_and_waits(kLate);
  EXPECT_FALSE(application.waits_soon());
  for (int call = 0; call < 2; ++call) application.begins_and_waits(kSoon);
  EXPECT_FALSE(application.waits_soon());
}

TEST(OverlapPredictor, LateSecondStartBeforeAnyWait_predictsNoPromptWait) {
  Application application;
  for (int call = 0; call < 3; ++call) application.begins_and_waits(kSoon);
  application.begins();
  application.computes(kLate);
  EXPECT_TRUE(application.waits_soon());
  application.sends();
  EXPECT_FALSE(application.waits_soon());
}

TEST(OverlapPredictor, DelayBeforeAWait_countsFromTheFirstStart) {
  Application application;
  for (int call = 0; call < 5; ++call) {
    application.sends();
    application.computes(kSoon);
    application.begins();
    application.computes(kSoon);
    application.waits();
  }
  EXPECT_FALSE(application.waits_soon());
}

TEST(OverlapPredictor, DelayBeforeAWait_countsFromTheEndOfTheYield) {
  Application application;
  for (int call = 0; call < 3; ++call) {
    application.begins();
    application.computes(kLate);
    application.yields();
    application.computes(kSoon);
    application.waits();
  }
  EXPECT_TRUE(application.waits_soon());
}

TEST(OverlapPredictor, CallsInFlightAfterAWait_predictNoPromptWait) {
  Application application;
  for (int call = 0; call < 3; ++call) application.begins_and_waits(kSoon);
  application.computes_with_calls_in_flight();
  EXPECT_FALSE(application.waits_soon());
}

TEST(OverlapPredictor, WaitsOfBlockingCalls_predictNoPromptWait) {
  Application application;
  for (int call = 0; call < 5; ++call) {
    application.waits();
    application.computes();
  }
  EXPECT_FALSE(application.waits_soon());
}

}  // namespace
}  // namespace tutti::runtime
