// Tests in which order the stages of a hierarchical call may begin.
#include "hierarchy/hierarchical_call.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace tutti::hierarchy {
namespace {

constexpr std::size_t kNone = HierarchyStage::kNone;

HierarchyStage stage(HierarchySide side, std::size_t after = kNone) {
  HierarchyStage made{.side = side};
  made.after = after;
  return made;
}

TEST(HierarchicalCall, Stage_beginsOnlyAfterTheEndOfTheStageThatItNames) {
  HierarchicalCall call({stage(HierarchySide::host), stage(HierarchySide::across, 0)});
  ASSERT_EQ(call.ready(), 0u);
  call.begin(0);
  EXPECT_EQ(call.ready(), kNone);
  call.end(0, {});
  ASSERT_EQ(call.ready(), 1u);
  call.begin(1);
  EXPECT_FALSE(call.over());
  call.end(1, {});
  EXPECT_TRUE(call.over());
  EXPECT_TRUE(call.status().ok());
}

TEST(HierarchicalCall, StagesOnOneSideCommunicator_beginInTheirOrder) {
  // The second stage waits for the first. The third stage must wait too, because it comes after the
  // second on the same side communicator.
  HierarchicalCall call({stage(HierarchySide::across), stage(HierarchySide::host, 0),
                         stage(HierarchySide::host), stage(HierarchySide::across)});
  call.begin(call.ready());
  EXPECT_EQ(call.ready(), 3u);
  call.begin(3);
  EXPECT_EQ(call.ready(), kNone);
  call.end(0, {});
  EXPECT_EQ(call.ready(), 1u);
  call.begin(1);
  EXPECT_EQ(call.ready(), 2u);
}

TEST(HierarchicalCall, Call_afterAStageFails_beginsNoFurtherStage_andEndsWithTheFirstFailure) {
  HierarchicalCall call(
      {stage(HierarchySide::host), stage(HierarchySide::across), stage(HierarchySide::host)});
  call.begin(0);
  call.begin(1);
  call.end(0, failure(Code::peer_failed, "rank 2 is lost"));
  EXPECT_EQ(call.ready(), kNone);
  EXPECT_FALSE(call.over());
  call.end(1, failure(Code::aborted, "aborted"));
  EXPECT_TRUE(call.over());
  EXPECT_EQ(call.ended(), 2u);
  EXPECT_EQ(call.status().code(), Code::peer_failed);
}

}  // namespace
}  // namespace tutti::hierarchy
