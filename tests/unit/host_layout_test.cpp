// Tests which ranks count as ranks of one host.
#include <gtest/gtest.h>

#include <thread>

#include "runtime/bootstrap/local_bootstrap.hpp"
#include "runtime/hierarchy/host_layout.hpp"
#include "runtime/hierarchy/subset_bootstrap.hpp"

namespace tutti::runtime {
namespace {

/// The hosts of the ranks, from a text with one character per rank that stands for the rank's host.
std::vector<PeerOptions> ranks_on(const std::string& hosts) {
  std::vector<PeerOptions> greetings;
  for (const char host : hosts) {
    PeerOptions one;
    one.network = std::string("network of ") + host;
    one.memory = std::string("memory of ") + host;
    greetings.push_back(one);
  }
  return greetings;
}

TEST(HostLayout, HostsWithEqualNumbersOfConsecutiveRanks_areRecognised) {
  const HostLayout layout = HostLayout::of(ranks_on("aaabbbccc"));
  EXPECT_TRUE(layout.hierarchical());
  EXPECT_EQ(layout.hosts, 3u);
  EXPECT_EQ(layout.ranks_per_host, 3u);
  EXPECT_EQ(layout.host_of(Rank{5}), 1u);
  EXPECT_EQ(layout.place_of(Rank{5}), 2u);
}

TEST(HostLayout, OneHost_unequalHosts_orInterleavedRanks_areFlat) {
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

TEST(HostLayout, RanksThatShareANetworkButNoMemoryAreFlat) {
  auto greetings = ranks_on("aabb");
  greetings[1].memory = "another user's";
  EXPECT_FALSE(HostLayout::of(greetings).hierarchical());
}

TEST(SubsetBootstrap, OnlyMembersExchange) {
  auto whole = make_local_bootstraps(5);
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < 5; ++r) {
    threads.emplace_back([&, r] {
      constexpr Nanoseconds kLong = std::chrono::seconds(60);
      // Ranks 1 and 3 exchange, and the other ranks take no part.
      SubsetBootstrap part(*whole[r], {Rank{1}, Rank{3}});
      EXPECT_EQ(part.size(), 2u);
      if (r == 1 || r == 3) {
        EXPECT_EQ(index(part.rank()), r / 2);
        const Bytes mine(1, std::byte(r));
        const auto all = part.allgather(mine, kLong);
        ASSERT_TRUE(all.ok());
        EXPECT_EQ(*all, (std::vector<Bytes>{Bytes(1, std::byte{1}), Bytes(1, std::byte{3})}));
      } else {
        EXPECT_EQ(index(part.rank()), part.size());
      }
      EXPECT_TRUE(part.participate_idle(3, kLong).ok());
      const auto after = whole[r]->allgather(Bytes(1, std::byte(r)), kLong);
      ASSERT_TRUE(after.ok());
      for (std::uint32_t other = 0; other < 5; ++other)
        EXPECT_EQ((*after)[other], Bytes(1, std::byte(other)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tutti::runtime
