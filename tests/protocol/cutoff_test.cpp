#include "protocol/cutoff.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tutti::protocol {
namespace {

using std::chrono::milliseconds;

constexpr Instant at(std::int64_t milliseconds_since) { return {milliseconds_since * 1'000'000}; }

Cutoff with_silence_timeout(std::int64_t timeout_ms) {
  Cutoff::Settings settings;
  settings.silence_timeout_floor = settings.silence_timeout_ceiling = milliseconds(timeout_ms);
  return Cutoff(settings, Jitter());
}

TEST(Cutoff, UnarmedCutoffNeverFires) {
  Cutoff cutoff = with_silence_timeout(2);
  EXPECT_FALSE(cutoff.armed());
  EXPECT_EQ(cutoff.deadline(), kNever);
  EXPECT_FALSE(cutoff.expired(at(1'000'000)));
}

TEST(Cutoff, ArmedCutoff_firesAfterTheExpectedTimePlusTheSilenceTimeout) {
  Cutoff cutoff = with_silence_timeout(2);
  cutoff.arm(at(100), milliseconds(50));
  EXPECT_EQ(cutoff.deadline(), at(152));
  EXPECT_FALSE(cutoff.expired(at(151)));
  EXPECT_TRUE(cutoff.expired(at(152)));
}

TEST(Cutoff, Progress_postponesTheCutoffByTheSilenceTimeout) {
  Cutoff cutoff = with_silence_timeout(2);
  cutoff.arm(at(0), milliseconds(10));
  cutoff.progress(at(5));
  EXPECT_EQ(cutoff.deadline(), at(12)) << "the expected time is not shortened";
  cutoff.progress(at(11));
  EXPECT_FALSE(cutoff.expired(at(12)));
  EXPECT_EQ(cutoff.deadline(), at(13));
  EXPECT_EQ(cutoff.last_progress(), at(11));
  EXPECT_TRUE(cutoff.expired(at(13)));
}

TEST(Cutoff, Cutoff_afterFiring_firesAgainAfterTheSilenceTimeout) {
  Cutoff cutoff = with_silence_timeout(4);
  cutoff.arm(at(0), milliseconds(0));
  EXPECT_TRUE(cutoff.expired(at(4)));
  EXPECT_FALSE(cutoff.expired(at(4)));
  EXPECT_FALSE(cutoff.expired(at(7)));
  EXPECT_TRUE(cutoff.expired(at(8)));
}

TEST(Cutoff, SilenceTimeout_isAMultipleOfTheJitter_withinItsBounds) {
  Cutoff::Settings settings;
  settings.silence_timeout_floor = milliseconds(2);
  settings.silence_timeout_ceiling = milliseconds(50);
  settings.jitter_multiple = 4;
  Jitter jitter;
  EXPECT_EQ(Cutoff(settings, jitter).silence_timeout(), milliseconds(2));
  for (int i = 0; i < 100; ++i) jitter.observe(milliseconds(5));
  EXPECT_NEAR(static_cast<double>(Cutoff(settings, jitter).silence_timeout().count()), 20e6, 1e5);
  for (int i = 0; i < 100; ++i) jitter.observe(milliseconds(500));
  EXPECT_EQ(Cutoff(settings, jitter).silence_timeout(), milliseconds(50));
}

TEST(Jitter, SmoothedJitter_risesFastAndFallsSlowly) {
  Jitter jitter;
  jitter.observe(milliseconds(8));
  EXPECT_EQ(jitter.smoothed(), milliseconds(4));
  jitter.observe(milliseconds(0));
  EXPECT_EQ(jitter.smoothed(), Nanoseconds(3'500'000));
  for (int i = 0; i < 300; ++i) jitter.observe(milliseconds(0));
  EXPECT_LT(jitter.smoothed(), Nanoseconds(10));
}

TEST(Cutoff, EveryReasonOfACutoff_hasAName) {
  EXPECT_EQ(std::string(to_string(CutoffReason::silence)), "silence");
  EXPECT_EQ(std::string(to_string(CutoffReason::neighbour_finished)), "neighbour finished");
  EXPECT_EQ(std::string(to_string(CutoffReason::none)), "none");
}

}  // namespace
}  // namespace tutti::protocol
