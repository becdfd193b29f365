// Tests the matching of tagged messages with receives.
#include "protocol/matching/tag_matcher.hpp"

#include <gtest/gtest.h>

#include <list>
#include <optional>

#include "base/random.hpp"

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

TEST(TagMatcher, Messages_thatFitOneReceive_areTakenInOrderOfArrival) {
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

/// A simple implementation of the rules of matching, which searches one list of receives and one
/// list of messages.
class Reference {
 public:
  std::optional<Number> post(Number receive, const TagMatcher::Pattern& pattern) {
    for (auto at = messages_.begin(); at != messages_.end(); ++at) {
      if (!fits(pattern, at->second)) continue;
      const Number found = at->first;
      messages_.erase(at);
      return found;
    }
    receives_.emplace_back(receive, pattern);
    return std::nullopt;
  }
  std::optional<Number> arrive(Number message, const TagMatcher::Envelope& envelope) {
    for (auto at = receives_.begin(); at != receives_.end(); ++at) {
      if (!fits(at->second, envelope)) continue;
      const Number found = at->first;
      receives_.erase(at);
      return found;
    }
    messages_.emplace_back(message, envelope);
    return std::nullopt;
  }
  bool cancel(Number receive) {
    return std::erase_if(receives_, [&](const auto& one) { return one.first == receive; }) > 0;
  }
  std::size_t kept_receives() const { return receives_.size(); }
  std::size_t kept_messages() const { return messages_.size(); }

 private:
  static bool fits(const TagMatcher::Pattern& pattern, const TagMatcher::Envelope& envelope) {
    const bool source = pattern.source == kNoRank || pattern.source == envelope.source;
    return source && (pattern.tag & pattern.mask) == (envelope.tag & pattern.mask);
  }

  std::list<std::pair<Number, TagMatcher::Pattern>> receives_;
  std::list<std::pair<Number, TagMatcher::Envelope>> messages_;
};

TEST(TagMatcher, RandomCalls_getTheAnswersOfAReferenceMatcher) {
  constexpr std::uint64_t kCalls = 200'000;
  TagMatcher matcher;
  Reference reference;
  std::uint64_t matched = 0;
  std::uint64_t cancelled = 0;
  for (std::uint64_t call = 0; call < kCalls; ++call) {
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
  EXPECT_GT(matched, kCalls / 4);
  EXPECT_GT(cancelled, 0u);
}

}  // namespace
}  // namespace tutti::protocol
