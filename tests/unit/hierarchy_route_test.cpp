// Tests only the route through the leaders of hosts. Four threads of this process are the ranks of
// two hosts with two ranks each.
#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "communicator_ranks.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/hierarchy/hierarchy.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/progress.hpp"
#include "runtime/routes/route_names.hpp"

namespace tutti::runtime {
namespace {

using test::Bytes;

constexpr hierarchy::HostLayout kLayout{.hosts = 2, .ranks_per_host = 2};

struct Member {
  std::uint32_t rank;
  std::shared_ptr<Progress> progress;
  std::shared_ptr<Hierarchy> route;

  void finish(const CallRoute::Outcome& outcome) const {
    ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
    ASSERT_TRUE(progress->wait(**outcome, now() + test::kLong));
    ASSERT_TRUE((*outcome)->status.ok()) << (*outcome)->status.to_string();
  }
};

void on_members(const std::function<void(Member&)>& body, const engine::RankNames& names = {}) {
  auto bootstraps = make_local_bootstraps(kLayout.ranks());
  const crypto::Secret key;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < kLayout.ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      auto progress = Progress::create({.spin = std::chrono::microseconds(20)});
      ASSERT_TRUE(progress.ok()) << progress.status().to_string();
      const auto never = [](const CollectiveCall&) { return false; };
      auto made = Hierarchy::create(*bootstraps[rank], test::patient(), kLayout, false, never,
                                    *progress, key, names);
      ASSERT_TRUE(made.ok()) << made.status().to_string();
      Member member{rank, *progress, *made};
      body(member);
      (void)member.route->close(now() + test::kLong);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HierarchyRoute, PreparedCall_runsRepeatedly_andAnInvalidCallIsRefused) {
  on_members([](Member& member) {
    constexpr std::size_t kBytes = 1000;
    Bytes own(kBytes);
    Bytes all(kBytes * kLayout.ranks());
    const CollectiveCall call{.collective = Collective::allgather,
                              .send = own,
                              .receive = all,
                              .options = {.will_wait = true}};
    ASSERT_TRUE(member.route->serves(call));
    CollectiveCall wrong = call;
    wrong.receive = wrong.receive.first(kBytes);
    const auto refused = member.route->prepare(wrong);
    EXPECT_EQ(refused.status().code(), Code::invalid_argument);
    EXPECT_NE(refused.status().message().find("4 ranks x 1000 bytes need 4000"), std::string::npos)
        << refused.status().to_string();
    EXPECT_EQ(member.route->algorithm_of(wrong).status().message(), refused.status().message());
    EXPECT_EQ(*member.route->algorithm_of(call), "hierarchical");
    const auto run = member.route->prepare(call);
    ASSERT_TRUE(run.ok()) << run.status().to_string();
    for (std::uint64_t round = 0; round < 3; ++round) {
      const Bytes mine = test::pattern(kBytes, 10 * round + member.rank);
      std::copy(mine.begin(), mine.end(), own.begin());
      member.finish((*run)());
      for (std::uint32_t r = 0; r < kLayout.ranks(); ++r) {
        const Bytes expected = test::pattern(kBytes, 10 * round + r);
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), all.begin() + r * kBytes)) << r;
      }
    }
    EXPECT_TRUE(member.route->close(now() + test::kLong).ok());
  });
}

TEST(HierarchyRoute, Abort_inAPartOfAJob_namesTheRankByItsNumberInTheJob) {
  const engine::RankNames names({}, {Rank{10}, Rank{11}, Rank{12}, Rank{13}});
  on_members(
      [](Member& member) {
        if (member.rank == 1) member.progress->with_engine([&] { member.route->abort("stop"); });
        if (member.rank != 0) return;
        const Instant deadline = now() + test::kLong;
        while (member.route->status().ok() && now() < deadline) member.progress->poll();
        const Status status = member.route->status();
        EXPECT_EQ(test::ranks_of(status), std::vector<std::uint32_t>{11}) << status.to_string();
        EXPECT_NE(status.message().find("rank 11 of the job"), std::string::npos)
            << status.to_string();
      },
      names);
}

/// Rank 0 starts an Allgather with `algorithm`, which no other rank starts. Then rank 3 calls
/// `fail`, which must end the Allgather with an error that names rank 3.
void expect_end(Algorithm algorithm,
                const std::function<void(CommunicatorImpl&, Hierarchy&)>& fail) {
  auto bootstraps = make_local_bootstraps(kLayout.ranks());
  std::barrier<> under_way(kLayout.ranks());
  std::barrier<> over(kLayout.ranks());
  const auto run = [&](std::uint32_t rank) {
    auto whole = CommunicatorImpl::create(*bootstraps[rank], test::patient(), nullptr, {});
    ASSERT_TRUE(whole.ok()) << whole.status().to_string();
    const auto never = [](const CollectiveCall&) { return false; };
    const auto route = Hierarchy::create(*bootstraps[rank], test::patient(), kLayout, false, never,
                                         (*whole)->progress(), (*whole)->child_key(), {});
    ASSERT_TRUE(route.ok()) << route.status().to_string();
    (*whole)->add_route(*route);
    Bytes own(1000);
    Bytes all(own.size() * kLayout.ranks());
    const CollectiveCall call{.collective = Collective::allgather,
                              .send = own,
                              .receive = all,
                              .options = {.algorithm = algorithm}};
    ASSERT_EQ((*route)->serves(call), algorithm == kHierarchical);
    Result<std::shared_ptr<RequestState>> request = Status(Code::internal, "no call");
    if (rank == 0) {
      request = (*whole)->start(call);
      ASSERT_TRUE(request.ok()) << request.status().to_string();
    }
    under_way.arrive_and_wait();
    if (rank == 3) (*whole)->progress()->with_engine([&] { fail(**whole, **route); });
    if (rank == 0) {
      const engine::Completion& end = *(*request)->completion;
      EXPECT_TRUE((*whole)->progress()->wait(end, now() + test::kLong));
      EXPECT_EQ(test::ranks_of(end.status), std::vector<std::uint32_t>{3})
          << end.status.to_string();
    }
    over.arrive_and_wait();
  };
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < kLayout.ranks(); ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
}

TEST(HierarchyRoute, CallByHosts_afterAFailureOfTheWholeCommunicator_endsWithAnError) {
  expect_end(kHierarchical,
             [](CommunicatorImpl& whole, Hierarchy&) { whole.context().failures().abort("stop"); });
}

TEST(HierarchyRoute, FlatCall_afterAFailureOfASideCommunicator_endsWithAnError) {
  expect_end("ring", [](CommunicatorImpl&, Hierarchy& route) { route.abort("stop"); });
}

/// A bootstrap whose exchanges fail.
class LostBootstrap final : public Bootstrap {
 public:
  explicit LostBootstrap(Rank rank) : rank_(rank) {}
  Rank rank() const override { return rank_; }
  std::uint32_t size() const override { return kLayout.ranks(); }
  std::string description() const override { return "lost"; }
  Result<std::vector<Bytes>> allgather(std::span<const std::byte>, Nanoseconds) override {
    return Status(Code::timeout, "rank 3 did not take part");
  }

 private:
  Rank rank_;
};

TEST(HierarchyRoute, CreationWhoseExchangeFails_fails_andMakesNoRouteWithARefusal) {
  LostBootstrap bootstrap(rank_of(0));
  auto progress = Progress::create({});
  ASSERT_TRUE(progress.ok()) << progress.status().to_string();
  const auto never = [](const CollectiveCall&) { return false; };
  const auto made = Hierarchy::create(bootstrap, test::patient(), kLayout, false, never, *progress,
                                      crypto::Secret(), {});
  EXPECT_EQ(made.status().code(), Code::timeout) << made.status().to_string();
}

}  // namespace
}  // namespace tutti::runtime
