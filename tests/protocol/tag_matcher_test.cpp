// Tests the matching of tagged messages with receives.
#include "protocol/matching/tag_matcher.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <optional>

#include "base/random.hpp"
#include "count_wanted.hpp"
#include "reference_matcher.hpp"

namespace tutti::protocol {
namespace {

using Number = TagMatcher::Number;

constexpr Rank kOne{1};
constexpr Rank kTwo{2};

TEST(TagMatcher, PostedReceive_isMatchedOnlyByAMessageOfItsSourceAndTag) {
  TagMatcher matcher;
  EXPECT_EQ(matcher.post(10, {.source = kOne, .tag = 5}), std::nullopt);
  EXPECT_EQ(matcher.arrive(20, {kTwo, 5}), std::nullopt);
  EXPECT_EQ(matcher.arrive(21, {kOne, 6}), std::nullopt);
  EXPECT_EQ(matcher.arrive(22, {kOne, 5}), Number{10});
  EXPECT_EQ(matcher.kept_receives(), 0u);
  EXPECT_EQ(matcher.kept_messages(), 2u);
}

TEST(TagMatcher, MessagesThatMatchOneReceive_areTakenInOrderOfArrival) {
  TagMatcher matcher;
  EXPECT_EQ(matcher.arrive(1, {kTwo, 5}), std::nullopt);
  EXPECT_EQ(matcher.arrive(2, {kOne, 5}), std::nullopt);
  EXPECT_EQ(matcher.arrive(3, {kTwo, 5}), std::nullopt);
  EXPECT_EQ(matcher.post(10, {.tag = 5}), Number{1});
  EXPECT_EQ(matcher.post(11, {.source = kTwo, .tag = 5}), Number{3});
  EXPECT_EQ(matcher.post(12, {.tag = 5}), Number{2});
}

TEST(TagMatcher, OldestReceive_fromOneSourceOrFromAny_getsTheMessage) {
  TagMatcher matcher;
  matcher.post(10, {.tag = 5});
  matcher.post(11, {.source = kOne, .tag = 5});
  EXPECT_EQ(matcher.arrive(1, {kOne, 5}), Number{10});
  matcher.post(12, {.tag = 5});
  EXPECT_EQ(matcher.arrive(2, {kOne, 5}), Number{11});
  EXPECT_EQ(matcher.arrive(3, {kOne, 5}), Number{12});
}

TEST(TagMatcher, TagBitsOutsideTheMask_areIgnored) {
  TagMatcher matcher;
  matcher.post(10, {.tag = 0x10, .mask = 0xf0});
  EXPECT_EQ(matcher.arrive(1, {kOne, 0x25}), std::nullopt);
  EXPECT_EQ(matcher.arrive(2, {kOne, 0x1f}), Number{10});
  EXPECT_EQ(matcher.post(11, {.tag = 0, .mask = 0}), Number{1});
}

TEST(TagMatcher, CancelledReceive_getsNoMessage) {
  TagMatcher matcher;
  matcher.post(10, {.source = kOne, .tag = 5});
  EXPECT_FALSE(matcher.cancel(11));
  EXPECT_TRUE(matcher.cancel(10));
  EXPECT_FALSE(matcher.cancel(10));
  EXPECT_EQ(matcher.arrive(1, {kOne, 5}), std::nullopt);
}

TEST(TagMatcher, RandomCalls_getTheAnswersOfAReferenceMatcher) {
  const std::uint64_t calls = test::count_wanted("TUTTI_TEST_TAG_CALLS", 200'000);
  TagMatcher matcher;
  test::ReferenceMatcher reference;
  std::uint64_t matched = 0;
  std::uint64_t cancelled = 0;
  for (std::uint64_t call = 0; call < calls; ++call) {
    auto random = [&, at = std::uint64_t{0}](std::uint64_t bound) mutable {
      return draw(call, at++) % bound;
    };
    const std::uint64_t kind = random(20);
    const Rank source = rank_of(random(4));
    const std::uint64_t tag = random(8);
    if (kind == 0) {
      const Number receive = call - std::min(call, random(40));
      const bool was_kept = matcher.cancel(receive);
      ASSERT_EQ(was_kept, reference.cancel(receive)) << "call " << call;
      cancelled += was_kept;
    } else if (kind % 2 == 0) {
      const TagMatcher::Pattern pattern{.source = random(4) == 0 ? kNoRank : source,
                                        .tag = tag,
                                        .mask = random(4) == 0 ? random(8) : UINT64_MAX};
      const auto message = matcher.post(call, pattern);
      ASSERT_EQ(message, reference.post(call, pattern)) << "call " << call;
      matched += message.has_value();
    } else {
      const auto receive = matcher.arrive(call, {source, tag});
      ASSERT_EQ(receive, reference.arrive(call, {source, tag})) << "call " << call;
      matched += receive.has_value();
    }
    ASSERT_EQ(matcher.kept_receives(), reference.kept_receives());
    ASSERT_EQ(matcher.kept_messages(), reference.kept_messages());
  }
  EXPECT_GT(matched, calls / 4);
  EXPECT_GT(cancelled, 0u);
  std::printf(
      "[ figures  ] %llu posts, arrivals and cancellations equal the reference, %llu matches\n",
      static_cast<unsigned long long>(calls), static_cast<unsigned long long>(matched));
}

}  // namespace
}  // namespace tutti::protocol
