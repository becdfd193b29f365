// Tests bootstraps among subsets of the ranks of another bootstrap.
#include "runtime/bootstrap/subset_bootstrap.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "runtime/bootstrap/local_bootstrap.hpp"

namespace tutti::runtime {
namespace {

constexpr Nanoseconds kLong = std::chrono::seconds(60);

/// Runs `body` in a thread for each of `size` ranks, then checks that the ranks can still exchange.
void on_whole(std::uint32_t size, const std::function<void(Bootstrap&, std::uint32_t)>& body) {
  auto whole = make_local_bootstraps(size);
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      body(*whole[r], r);
      const auto after = whole[r]->allgather(Bytes(1, std::byte(r)), kLong);
      ASSERT_TRUE(after.ok());
      for (std::uint32_t other = 0; other < size; ++other)
        EXPECT_EQ((*after)[other], Bytes(1, std::byte(other)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SubsetBootstrap, OnlyMembersExchange) {
  on_whole(5, [](Bootstrap& whole, std::uint32_t r) {
    // Ranks 1 and 3 exchange, and the other ranks take no part.
    SubsetBootstrap part(whole, {Rank{1}, Rank{3}});
    EXPECT_EQ(part.size(), 2u);
    if (r == 1 || r == 3) {
      EXPECT_EQ(index(part.rank()), r / 2);
      const auto all = part.allgather(Bytes(1, std::byte(r)), kLong);
      ASSERT_TRUE(all.ok());
      EXPECT_EQ(*all, (std::vector<Bytes>{Bytes(1, std::byte{1}), Bytes(1, std::byte{3})}));
    } else {
      EXPECT_EQ(index(part.rank()), part.size());
    }
    EXPECT_TRUE(part.finish(kLong).ok());
  });
}

TEST(SubsetBootstrap, Subsets_mayMakeDifferentNumbersOfExchanges) {
  on_whole(4, [](Bootstrap& whole, std::uint32_t r) {
    SubsetBootstrap part(whole, {rank_of(r % 2), rank_of(r % 2 + 2)});
    for (std::uint32_t i = 0; i < 1 + 3 * (r % 2); ++i) {
      const auto all = part.allgather(Bytes(i, std::byte(r)), kLong);
      ASSERT_TRUE(all.ok());
      EXPECT_EQ((*all)[1], Bytes(i, std::byte(r % 2 + 2)));
    }
    EXPECT_TRUE(part.finish(kLong).ok());
  });
}

TEST(SubsetBootstrap, MemberThatFinishesEarly_isNamedInTheErrorOfTheOthers) {
  on_whole(3, [](Bootstrap& whole, std::uint32_t r) {
    SubsetBootstrap part(whole, {Rank{0}, Rank{2}});
    if (r == 0) {
      const auto all = part.allgather(Bytes(1), kLong);
      EXPECT_EQ(all.status().code(), Code::peer_failed);
      ASSERT_EQ(all.status().ranks().size(), 1u);
      EXPECT_EQ(all.status().ranks()[0], Rank{2});
    }
    EXPECT_TRUE(part.finish(kLong).ok());
  });
}

/// A bootstrap of one rank that keeps the timeout of its last exchange.
class TimedBootstrap final : public Bootstrap {
 public:
  Rank rank() const override { return Rank{0}; }
  std::uint32_t size() const override { return 1; }
  std::string description() const override { return "a test"; }
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       Nanoseconds timeout) override {
    last_timeout = timeout;
    return std::vector<Bytes>{Bytes(mine.begin(), mine.end())};
  }

  Nanoseconds last_timeout{};
};

TEST(SubsetBootstrap, Finish_waitsLongerThanAnExchangeOfTheOtherRanks) {
  TimedBootstrap whole;
  SubsetBootstrap part(whole, {Rank{0}});
  ASSERT_TRUE(part.allgather(Bytes(1), kLong).ok());
  EXPECT_EQ(whole.last_timeout, kLong);
  ASSERT_TRUE(part.finish(kLong).ok());
  EXPECT_EQ(whole.last_timeout, 2 * kLong);
  ASSERT_TRUE(part.finish(Nanoseconds::max()).ok());
  EXPECT_GE(whole.last_timeout, Nanoseconds::max() - Nanoseconds(1));
}

}  // namespace
}  // namespace tutti::runtime
