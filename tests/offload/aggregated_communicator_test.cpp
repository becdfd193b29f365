// Tests communicators whose reductions go through aggregators: the failure of one of several
// aggregators, and the options that concern aggregators.
#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <string>
#include <thread>

#include "aggregated_job.hpp"
#include "runtime/aggregator/aggregation_options.hpp"
#include "runtime/communicator/create.hpp"
#include "runtime/hierarchy/hierarchy_shape.hpp"
#include "runtime/routes/route_names.hpp"
#include "tutti/communicator.hpp"

namespace tutti::runtime {
namespace {

class AggregatedCommunicator : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TUTTI_AGGREGATOR_KEY", kKey, 1); }
  void TearDown() override { ::unsetenv("TUTTI_AGGREGATOR_KEY"); }
};

TEST_F(AggregatedCommunicator, CallOnTwoAggregators_afterOneEnds_endsWithAnErrorThatNamesIt) {
  auto lost = start_service();
  const auto left = start_service();
  CommunicatorOptions options = patient();
  options.aggregators = {address_of(*lost), address_of(*left)};
  auto bootstraps = make_local_bootstraps(2);
  std::barrier<> over(2);
  const auto run = [&](std::uint32_t rank) {
    auto communicator = create_communicator(*bootstraps[rank], options);
    ASSERT_TRUE(communicator.ok()) << communicator.status().to_string();
    // Rank 1 makes no call, so the part of the other aggregator cannot complete.
    if (rank == 0) {
      std::vector<std::byte> data(200'000);
      auto request = communicator->allreduce(data, data, {}, {kInNetwork});
      ASSERT_TRUE(request.ok()) << request.status().to_string();
      lost.reset();
      const Status status = request->wait_for(kPatience);
      EXPECT_NE(status.code(), Code::timeout);
      // If rank 1 finds the loss first, its notice names no address.
      const std::string& text = status.message();
      EXPECT_TRUE(text.find(options.aggregators[0]) != std::string::npos ||
                  text.find("loss of an aggregator") != std::string::npos)
          << text;
      EXPECT_EQ(text.find(options.aggregators[1]), std::string::npos) << text;
      EXPECT_TRUE(status.ranks().empty()) << status.to_string();
    }
    over.arrive_and_wait();
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

// Rank 0 has lost another aggregator, and its notice arrives before those about that aggregator.
TEST_F(AggregatedCommunicator, LossOfAnotherAggregator_asReportedByARank_putsNoRankAtFault) {
  const auto left = start_service();
  std::barrier<> joined(2);
  std::barrier<> over(2);
  on_joined_ranks(2, patient(), {address_of(*left)}, [&](Member& member) {
    joined.arrive_and_wait();
    if (member.rank == 0) {
      member.progress->with_engine([&] {
        member.aggregation->fail_because(
            Status(Code::peer_failed, "aggregator 10.0.0.9:7000 does not answer"));
      });
    } else {
      const Instant deadline = now() + kPatience;
      while (member.aggregation->status().ok() && now() < deadline) member.progress->poll();
      const Status status = member.aggregation->status();
      EXPECT_EQ(status.code(), Code::peer_failed) << status.to_string();
      EXPECT_NE(status.message().find("loss of an aggregator"), std::string::npos)
          << status.to_string();
      EXPECT_TRUE(status.ranks().empty()) << status.to_string();
    }
    over.arrive_and_wait();
  });
}

TEST_F(AggregatedCommunicator, SilentAggregator_withFallbackAndAShortCreateTimeout_isNotUsed) {
  // The kernel accepts connections to this socket, and no process answers them.
  const auto silent = listen_on({"127.0.0.1", 0});
  ASSERT_TRUE(silent.ok());
  CommunicatorOptions options = patient();
  options.create_timeout = std::chrono::seconds(4);
  options.aggregators = {"127.0.0.1:" + std::to_string(*bound_port(*silent))};
  options.aggregator_fallback = true;
  on_ranks(2, options, [&](Member& member, const auto& made) {
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    EXPECT_FALSE(member.aggregation->active());
    EXPECT_EQ(member.aggregation->reason().code(), Code::timeout)
        << member.aggregation->reason().to_string();
  });
}

TEST_F(AggregatedCommunicator,
       OptionsOfASideCommunicator_areIndependentOfTheVariableForHierarchies) {
  ::setenv("TUTTI_HIERARCHY", "groups", 1);
  const auto shape = HierarchyShape::wanted(side_options({}));
  ::unsetenv("TUTTI_HIERARCHY");
  ASSERT_TRUE(shape.ok()) << shape.status().to_string();
  EXPECT_TRUE(shape->flat);
}

}  // namespace
}  // namespace tutti::runtime
