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
  const std::string address = address_of(*lost);
  CommunicatorOptions options = patient();
  options.aggregators = {address, address_of(*left)};
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
      EXPECT_NE(status.message().find("aggregator " + address), std::string::npos)
          << status.to_string();
    }
    over.arrive_and_wait();
  };
  std::thread other(run, 1);
  run(0);
  other.join();
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
