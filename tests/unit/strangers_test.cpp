// Tests a listening port ("door"): how it logs its refusals, and which of its strangers it drops. A
// stranger is a connection that has not shown that it belongs to a job.
#include "runtime/bootstrap/store/strangers.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <string>
#include <vector>

#include "descriptor_limit.hpp"
#include "runtime/bootstrap/store/refusal_log.hpp"
#include "runtime/bootstrap/text.hpp"

namespace tutti::runtime::test {
namespace {

TEST(StrangerLimits, StrangerLimit_withFewFileDescriptors_isHalfOfTheirNumber) {
  const tutti::test::DescriptorLimit few(200);
  const Strangers::Limits limits = Strangers::limits(1024);
  EXPECT_EQ(limits.total, 100u);
  EXPECT_EQ(limits.per_neighbourhood, 75u);
}

TEST(StrangerLimits, UsualLimitOfFileDescriptors_admits256RanksOfAHostAtTheSameTime) {
  const tutti::test::DescriptorLimit usual(
      std::min<rlim_t>(1024, tutti::test::DescriptorLimit::most()));
  const Strangers::Limits limits = Strangers::limits(1024);
  EXPECT_GE(limits.per_neighbourhood, 256u);
}

TEST(Strangers, StrangersBelowTheLimits_areNotDropped) {
  Strangers strangers({.total = 4, .per_neighbourhood = 2});
  for (const char* from : {"a", "a", "b", "b"}) {
    strangers.arrive(from);
    EXPECT_FALSE(strangers.surplus());
  }
  EXPECT_EQ(strangers.count(), 4u);
}

TEST(Strangers, AddressAboveItsLimit_losesItsOldestStrangers_andOtherAddressesLoseNone) {
  Strangers strangers({.total = 100, .per_neighbourhood = 3});
  const auto lone = strangers.arrive("b");
  std::vector<Strangers::Number> dropped;
  for (int i = 0; i < 10; ++i) {
    strangers.arrive("a");
    while (const auto surplus = strangers.surplus()) {
      dropped.push_back(*surplus);
      strangers.leave(*surplus);
    }
  }
  EXPECT_EQ(dropped, (std::vector<Strangers::Number>{2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(strangers.count(), 4u);
  strangers.leave(lone);
  EXPECT_EQ(strangers.count(), 3u);
}

TEST(Strangers, ExceededTotalLimit_dropsTheOldestStrangerOfTheBusiestAddress) {
  Strangers strangers({.total = 4, .per_neighbourhood = 3});
  strangers.arrive("a");
  const auto first_of_busiest = strangers.arrive("b");
  strangers.arrive("b");
  strangers.arrive("c");
  EXPECT_FALSE(strangers.surplus());
  strangers.arrive("c");
  // Addresses "b" and "c" have two strangers each, more than any other address. Of these four
  // strangers, the one that arrived first is dropped.
  EXPECT_EQ(strangers.surplus(), first_of_busiest);
}

TEST(Strangers, StrangerThatLeft_isNotCounted_andASecondLeaveIsIgnored) {
  Strangers strangers({.total = 1, .per_neighbourhood = 1});
  const auto member = strangers.arrive("a");
  strangers.leave(member);
  strangers.leave(member);
  strangers.arrive("a");
  EXPECT_FALSE(strangers.surplus());
}

TEST(RefusalLog, LinesPerSecond_areLimited_andFurtherRefusalsAreCounted) {
  std::vector<std::string> lines;
  RefusalLog log("the door", [&](const std::string& line) { lines.push_back(line); });
  const Deadline begin = SteadyClock::now();
  for (int i = 0; i < 50; ++i) log.refuse("h:1", "why", begin + std::chrono::milliseconds(i));
  EXPECT_EQ(lines.size(), RefusalLog::kMaxLinesPerSecond);
  EXPECT_EQ(lines[0], "the door: the connection from h:1 is refused: why");
  log.refuse("h:2", "why", begin + std::chrono::seconds(2));
  ASSERT_EQ(lines.size(), RefusalLog::kMaxLinesPerSecond + 1);
  EXPECT_EQ(lines.back(),
            "the door: the connection from h:2 is refused: why (40 refusals before it were not "
            "logged)");
  EXPECT_EQ(log.refused(), 51u);
}

TEST(RefusalLog, TextOfAPeer_isEscaped) {
  std::vector<std::string> lines;
  RefusalLog log("the door", [&](const std::string& line) { lines.push_back(line); });
  log.refuse("h:1", "a\nb\x1b[31m\xff", SteadyClock::now());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], R"(the door: the connection from h:1 is refused: a\x0ab\x1b[31m\xff)");
  EXPECT_EQ(printable("plain text"), "plain text");
}

}  // namespace
}  // namespace tutti::runtime::test
