// Tests which ranks count as ranks of one host.
#include <gtest/gtest.h>

#include "hierarchy/host_layout.hpp"

namespace tutti::hierarchy {
namespace {

/// The hosts of the ranks, from a text with one character per rank that names the rank's host.
std::vector<HostIdentity> ranks_on(const std::string& hosts) {
  std::vector<HostIdentity> ranks;
  for (const char host : hosts)
    ranks.push_back({std::string("network of ") + host, std::string("memory of ") + host});
  return ranks;
}

TEST(HostLayout, HostsWithEqualNumbersOfConsecutiveRanks_areRecognised) {
  const HostLayout layout = HostLayout::of(ranks_on("aaabbbccc"));
  EXPECT_TRUE(layout.hierarchical());
  EXPECT_EQ(layout.hosts, 3u);
  EXPECT_EQ(layout.ranks_per_host, 3u);
  EXPECT_EQ(layout.host_of(Rank{5}), 1u);
  EXPECT_EQ(layout.place_of(Rank{5}), 2u);
}

TEST(HostLayout, OneHostOrUnequalHostsOrInterleavedRanks_formNoHierarchy) {
  for (const char* hosts :
       {"a", "aaaa", "abcd", "aabbb", "abab", "aabbaa", "aab", "abb", "aabbab"}) {
    EXPECT_FALSE(HostLayout::of(ranks_on(hosts)).hierarchical()) << hosts;
  }
}

TEST(HostLayout, Host_isDividedOnlyIntoEqualPartsOfTwoOrMoreRanks) {
  const HostLayout layout{2, 6};
  EXPECT_EQ(layout.divided(1).hosts, 2u);
  EXPECT_EQ(layout.divided(2).hosts, 4u);
  EXPECT_EQ(layout.divided(2).ranks_per_host, 3u);
  EXPECT_EQ(layout.divided(3).ranks_per_host, 2u);
  for (const std::uint32_t parts : {0u, 4u, 5u, 6u, 7u}) {
    EXPECT_FALSE(layout.divided(parts).hierarchical()) << parts;
  }
}

TEST(HostLayout, RanksOfAHost_withoutSharedMemory_formNoHierarchy) {
  auto ranks = ranks_on("aabb");
  ranks[1].memory = "another user's";
  EXPECT_FALSE(HostLayout::of(ranks).hierarchical());
}

}  // namespace
}  // namespace tutti::hierarchy
