// Tests which algorithm a call gets: the default table, the preferences that take precedence over
// it, and the conditions of both.
#include "collectives/choice.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tutti::collectives {
namespace {

using schedule::Collective;

Situation allgather(std::uint64_t block_bytes, std::uint32_t ranks = 4,
                    std::string_view device = "ip") {
  return {Collective::allgather, ranks, 1, block_bytes, device};
}

ChoiceTable preferring(std::string_view text) {
  ChoiceTable table = ChoiceTable::defaults();
  const Status status = table.prefer(text);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return table;
}

TEST(Choice, FirstPreferenceThatFitsTheCall_choosesTheAlgorithm) {
  const ChoiceTable table = preferring("allgather[20000]=linear,allgather[40000]=bruck:ports=3");
  EXPECT_EQ(table.choose(allgather(20'000)).algorithm, "linear");
  EXPECT_EQ(to_string(table.choose(allgather(20'001))), "bruck:ports=3");
  EXPECT_TRUE(table.prefers(allgather(40'000)));
  EXPECT_EQ(table.choose(allgather(40'001)).algorithm, "multicast");
  EXPECT_FALSE(table.prefers(allgather(40'001)));
}

TEST(Choice, WhenClause_limitsThePreferencesThatFollowIt) {
  const ChoiceTable table = preferring(
      "when:ranks=4:hosts=1:device=host,allgather=ring,when:ranks=3,allgather=linear,when,"
      "allgather[64]=bruck");
  EXPECT_EQ(table.choose(allgather(4096, 4, "host")).algorithm, "ring");
  EXPECT_EQ(table.choose(allgather(4096, 3, "host")).algorithm, "linear");
  EXPECT_EQ(table.choose(allgather(40'960, 4, "ip")).algorithm, "multicast");
  EXPECT_EQ(table.choose(allgather(64, 4, "ip")).algorithm, "bruck");
  Situation on_two_hosts = allgather(1 << 20, 4, "host");
  on_two_hosts.hosts = 2;
  EXPECT_EQ(table.choose(on_two_hosts).algorithm, "multicast");
}

TEST(Choice, AutomaticPreference_usesTheDefaultTable) {
  const ChoiceTable table =
      preferring("when:ranks=4,allgather[20000]=automatic,allgather=ring,when,allgather=linear");
  EXPECT_EQ(table.choose(allgather(20'000)).algorithm, "multicast");
  EXPECT_FALSE(table.prefers(allgather(20'000)));
  EXPECT_EQ(table.choose(allgather(20'001)).algorithm, "ring");
}

TEST(Choice, ShortCallsUseTheSlotExchange) {
  const ChoiceTable table = ChoiceTable::defaults();
  for (const char* device : {"ip", "host"}) {
    for (const Collective one :
         {Collective::barrier, Collective::broadcast, Collective::allgather, Collective::gather}) {
      const Situation short_call{one, 16, 1, 8, device};
      EXPECT_EQ(table.choose(short_call).algorithm, "linear") << device << to_string(one);
    }
  }
  EXPECT_EQ(table.choose(allgather(16'384, 16, "ip")).algorithm, "linear");
  EXPECT_EQ(table.choose(allgather(16'385, 16, "ip")).algorithm, "multicast");
  EXPECT_EQ(table.choose(allgather(65'536, 16, "host")).algorithm, "linear");
  EXPECT_EQ(table.choose(allgather(65'537, 16, "host")).algorithm, "multicast");
}

TEST(Choice, ShortAllgathersOfManyRanksUseMulticast) {
  const ChoiceTable table = ChoiceTable::defaults();
  EXPECT_EQ(table.choose(allgather(16'000, 2)).algorithm, "linear");
  EXPECT_EQ(table.choose(allgather(65'536, 2)).algorithm, "multicast");
  EXPECT_EQ(table.choose(allgather(8, 17)).algorithm, "multicast");
}

TEST(Choice, NetworkWithoutMulticast_getsNoMulticastAndNoSlotExchange) {
  const ChoiceTable table = ChoiceTable::defaults();
  for (std::uint32_t c = 0; c < schedule::kCollectives; ++c) {
    for (const std::uint64_t bytes : {0u, 8u, 20'000u, 1u << 20}) {
      for (const std::uint32_t ranks : {2u, 16u, 17u, 1000u}) {
        const auto one = static_cast<Collective>(c);
        const Choice& choice = table.choose({one, ranks, ranks, bytes, "ip", false});
        EXPECT_NE(choice.algorithm, "multicast") << to_string(one) << bytes;
        EXPECT_EQ(choice.reason.find("multicasts"), std::string::npos) << choice.reason;
      }
    }
  }
}

/// Tries every collective and device with several numbers of ranks and hosts, and with sizes at and
/// just beyond the bounds of the rules.
TEST(Choice, EveryRuleOfTheDefaultTable_isChosenForSomeCall) {
  const ChoiceTable table = ChoiceTable::defaults();
  std::set<std::uint64_t> sizes{0, ChoiceRule::kAnyBytes};
  std::set<std::uint32_t> counts{1, 64};
  for (const ChoiceRule& one : table.rules()) {
    if (one.max_block_bytes != ChoiceRule::kAnyBytes) {
      sizes.insert({one.max_block_bytes, one.max_block_bytes + 1});
    }
    if (one.max_ranks != ChoiceRule::kAnyRanks) counts.insert({one.max_ranks, one.max_ranks + 1});
  }
  std::set<const Choice*> chosen;
  for (const ChoiceRule& rule : table.rules()) {
    for (const std::uint64_t bytes : sizes) {
      for (const std::uint32_t ranks : counts) {
        chosen.insert(&table.choose({rule.collective, ranks, 1, bytes, "host"}));
        chosen.insert(&table.choose({rule.collective, ranks, 1, bytes, "ip", false}));
        for (const std::uint32_t hosts : counts) {
          if (hosts > ranks) continue;
          chosen.insert(&table.choose({rule.collective, ranks, hosts, bytes, "ip"}));
        }
      }
    }
  }
  for (const ChoiceRule& one : table.rules()) {
    EXPECT_TRUE(chosen.contains(&one.choice))
        << to_string(one.collective) << " by " << one.choice.algorithm << ", " << one.choice.reason;
  }
}

/// A caller may reuse a choice for all sizes up to constant_up_to() without asking again.
TEST(Choice, ChoiceIsConstantUpToTheSizeOfTheNextRule) {
  const ChoiceTable table = preferring("allgather[5]=ring,allgather[7]=bruck,barrier[3]=linear");
  EXPECT_EQ(table.constant_up_to(Collective::allgather, 0), 5u);
  EXPECT_EQ(table.constant_up_to(Collective::allgather, 6), 7u);
  EXPECT_EQ(table.constant_up_to(Collective::allgather, 8), 8'192u);
  EXPECT_EQ(table.constant_up_to(Collective::allgather, 8'193), 16'384u);
  EXPECT_EQ(table.constant_up_to(Collective::barrier, 0), 3u);
  EXPECT_EQ(table.constant_up_to(Collective::barrier, 4), ChoiceRule::kAnyBytes);
}

TEST(Choice, WhenClausesThatDoNotHold_areListed) {
  const ChoiceTable table = preferring(
      "when:ranks=4:device=ip,allgather=ring,barrier=dissemination,when:ranks=8,allgather=ring");
  EXPECT_EQ(table.misplaced(allgather(1)), "");
  EXPECT_EQ(table.misplaced(allgather(1, 4, "host")), "when:ranks=4:device=ip, when:ranks=8");
  EXPECT_EQ(ChoiceTable::defaults().misplaced(allgather(1)), "");
}

TEST(Choice, TextOfAllPreferences_isKeptForComparisonBetweenRanks) {
  ChoiceTable table = preferring("when:ranks=4,allgather=ring");
  ASSERT_TRUE(table.prefer("barrier=recursive_doubling").ok());
  EXPECT_EQ(table.preferred(), "barrier=recursive_doubling,when:ranks=4,allgather=ring");
}

TEST(Choice, MalformedPreference_isRefused_andItsFaultIsNamedInTheError) {
  for (const auto& [text, named] :
       {std::pair("when:ranks=x,allgather=ring", "ranks is 'x'"),
        std::pair("when:device=tin", "'tin'"), std::pair("when:depth=3", "'depth'"),
        std::pair("whenever:ranks=3", "whenever"),
        std::pair("allgather=best", "recursive_doubling"),
        std::pair("allgather", "allgather=ring")}) {
    ChoiceTable table = ChoiceTable::defaults();
    const Status status = table.prefer(text);
    EXPECT_EQ(status.code(), Code::invalid_argument) << text;
    EXPECT_NE(status.message().find(named), std::string::npos) << status.message();
    EXPECT_FALSE(table.prefers(allgather(1))) << text;
  }
}

}  // namespace
}  // namespace tutti::collectives
