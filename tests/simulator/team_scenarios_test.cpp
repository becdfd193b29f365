// Tests reductions by an aggregator, receive workers, UC multicast, hierarchical collectives and
// credits of many chains in virtual time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "sim/simulation/scenario_run.hpp"

namespace tutti::simulation {
namespace {

constexpr std::uint32_t kCallers = 4;

struct Simulated {
  explicit Simulated(const std::string& text) {
    const auto scenario = Scenario::parse(text);
    EXPECT_TRUE(scenario.ok()) << scenario.status().to_string();
    if (!scenario) return;
    auto made = ScenarioWorld::create(*scenario);
    created = made.status();
    if (!made) return;
    world = std::move(*made);
    result = world->run();
  }
  const observe::Counters& of(std::uint32_t rank) const {
    return world->simulation().context(0, rank_of(rank)).counters();
  }

  /// Expects that the last collective of each of the ranks 0 to `ranks` - 1 failed.
  void expect_last_failed(std::uint32_t ranks, std::uint32_t collectives) const {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const CollectiveEnd& end = world->simulation().end_of(0, rank_of(rank), collectives - 1);
      EXPECT_TRUE(end.done && end.code != Code::ok) << "rank " << rank;
    }
  }

  Status created;
  std::unique_ptr<ScenarioWorld> world;
  ScenarioResult result;
};

std::string aggregated(const std::string& connections, const std::string& collectives,
                       const std::string& faults = "") {
  return fmt::format(
      "seed=5 topology=single:{0} jitter=5us connections={1}\n"
      "communicator ranks={0} aggregator-slots=3 chunk=256\nrun {2}\n{3}",
      kCallers + 1, connections, collectives, faults);
}

TEST(AggregatedScenario, ReductionsByAnAggregator_haveTheRightSums) {
  for (const char* connections : {"nic", "software"}) {
    SCOPED_TRACE(connections);
    // A run checks all result bytes.
    const Simulated run(
        aggregated(connections, "allreduce:40000 reduce-scatter:9000 reduce:16000:2 allreduce:0"));
    ASSERT_TRUE(run.created.ok()) << run.created.to_string();
    EXPECT_TRUE(run.result.report.verdict.ok()) << run.result.report.verdict.to_string();
    EXPECT_EQ(run.result.report.failed, 0u);
    EXPECT_EQ(run.of(kCallers).in_network_calls, 3u);
    EXPECT_GT(run.of(kCallers).in_network_segments_reduced, 3u + kCallers);
    for (std::uint32_t rank = 0; rank < kCallers; ++rank) {
      EXPECT_EQ(run.of(rank).in_network_calls, 3u) << "rank " << rank;
      EXPECT_GE(run.of(rank).in_network_bytes_sent, 40000u + 3 * 9000u + 16000u) << "rank " << rank;
    }
  }
}

TEST(AggregatedScenario, DeathOfTheAggregator_endsEveryCall_withAnErrorThatNamesIt) {
  for (const char* connections : {"nic", "software"}) {
    SCOPED_TRACE(connections);
    // The verdict is ok only if each error names the dead rank.
    const Simulated run(aggregated(connections, "allreduce:40000 reduce-scatter:9000",
                                   fmt::format("death {} at=20us\n", kCallers)));
    ASSERT_TRUE(run.created.ok()) << run.created.to_string();
    EXPECT_TRUE(run.result.report.verdict.ok()) << run.result.report.verdict.to_string();
    run.expect_last_failed(kCallers, 2);
  }
}

TEST(AggregatedScenario, CollectiveThatIsNoReduction_isRefused) {
  const Simulated run(aggregated("nic", "allgather:100"));
  EXPECT_EQ(run.created.code(), Code::invalid_argument);
  EXPECT_NE(run.created.message().find("use reduce, reduce-scatter or allreduce"),
            std::string::npos)
      << run.created.message();
}

TEST(ManyChains, ChainsBeyondTheChunksOfTheWindow_doNotOverfillTheReceiveQueues) {
  // The window has room for 8 chunks, but 16 chains are asked for. Rank 2 reads nothing for 20 us.
  const Simulated run(
      "seed=5 topology=single:16\ncommunicator ranks=16 chains=16 chunk=64 staging=8\n"
      "run allgather:2000\npause 2 at=5us for=20us\n");
  ASSERT_TRUE(run.created.ok()) << run.created.to_string();
  EXPECT_TRUE(run.result.report.verdict.ok()) << run.result.report.verdict.to_string();
  EXPECT_EQ(run.result.staging_drops, 0u);
  for (std::uint32_t rank = 0; rank < 16; ++rank)
    EXPECT_EQ(run.of(rank).tail_probes, 0u) << "rank " << rank;
}

/// The time that Allgathers of 16 ranks take, whose windows have room for 8 chunks.
Nanoseconds duration(std::uint32_t chains, std::uint64_t block_bytes, std::uint32_t collectives) {
  std::string text = fmt::format(
      "seed=5 topology=single:16\ncommunicator ranks=16 chains={} chunk=1024 staging=8\nrun",
      chains);
  for (std::uint32_t i = 0; i < collectives; ++i) text += fmt::format(" allgather:{}", block_bytes);
  const Simulated run(text);
  EXPECT_TRUE(run.created.ok()) << run.created.to_string();
  EXPECT_TRUE(run.result.report.verdict.ok()) << run.result.report.verdict.to_string();
  EXPECT_EQ(run.result.staging_drops, 0u);
  const Simulation& simulation = run.world->simulation();
  return simulation.end_of(0, rank_of(0), collectives - 1).ended_at -
         simulation.end_of(0, rank_of(0), 0).submitted_at;
}

TEST(ManyChains, BlocksOfOneChunkBeyondTheWindow_takeTwoTurns) {
  EXPECT_EQ(duration(0, 512, 1), duration(8, 512, 1));
  EXPECT_LT(duration(0, 512, 1), duration(1, 512, 1) / 2);
}

TEST(ManyChains, RanksThatLearnedTheLinkRate_sendAtThatRateInFewerChainsThanRanks) {
  EXPECT_LT(duration(0, 16'384, 8), duration(8, 16'384, 8) * 11 / 10);
}

TEST(ScenarioWithWorkers, Workers_receiveAllChunks) {
  const Simulated run(
      "seed=5 topology=single:4 receive-workers=3 jitter=5us\n"
      "communicator ranks=4 subgroups=4 chains=2 chunk=64\n"
      "run allgather:4000 broadcast:5000:1 allgather:64 broadcast:100:3\n"
      "fault drop receiver chunk rate=2%\n");
  ASSERT_TRUE(run.created.ok()) << run.created.to_string();
  EXPECT_TRUE(run.result.report.verdict.ok()) << run.result.report.verdict.to_string();
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_GT(run.of(rank).chunks_received_by_workers, 100u) << "rank " << rank;
    EXPECT_EQ(run.of(rank).chunks_received_by_workers, run.of(rank).chunks_received)
        << "rank " << rank;
  }
}

/// A scenario with UC messages of up to four fragments of 64 bytes. The network drops one fragment
/// in fifty.
std::string by_uc(const std::string& fields) {
  return fmt::format(
      "seed=5 topology=single:4 uc-fragments=4 jitter=5us {}\n"
      "communicator ranks=4 subgroups=2 chains=2 chunk=64\n"
      "run allgather:4000 broadcast:5000:1 allgather:64 broadcast:100:3\n"
      "fault drop receiver chunk rate=2%\n",
      fields);
}

TEST(UcScenario, MessageWithALostFragment_isFetched) {
  for (const char* fields : {"", "receive-workers=2", "connections=software"}) {
    SCOPED_TRACE(fields);
    const Simulated run(by_uc(fields));
    ASSERT_TRUE(run.created.ok()) << run.created.to_string();
    EXPECT_TRUE(run.result.report.verdict.ok()) << run.result.report.verdict.to_string();
    std::uint64_t fetched = 0;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(run.world->simulation().context(0, rank_of(rank)).settings().chunk_bytes, 256u);
      EXPECT_GT(run.of(rank).chunks_received, 20u) << "rank " << rank;
      fetched += run.of(rank).chunks_fetched;
    }
    EXPECT_GT(fetched, 0u);
    EXPECT_GT(run.result.injected.chunks_dropped_at_receiver, 0u);
  }
}

std::string by_hosts(const std::string& connections, const std::string& faults = "") {
  return fmt::format(
      "seed=5 topology=single:6 jitter=5us ranks-per-host=3 connections={}\n"
      "communicator ranks=6 chunk=64\n"
      "run allgather:700 broadcast:900:4 barrier broadcast:500:0 allgather:64\n{}",
      connections, faults);
}

TEST(HierarchicalScenario, HierarchicalCollectives_runOnSideCommunicators_andDeliverTheirBytes) {
  for (const char* connections : {"nic", "software"}) {
    SCOPED_TRACE(connections);
    const Simulated run(by_hosts(connections));
    ASSERT_TRUE(run.created.ok()) << run.created.to_string();
    EXPECT_TRUE(run.result.report.verdict.ok()) << run.result.report.verdict.to_string();
    EXPECT_EQ(run.result.report.completed, 5u * 6);
    for (std::uint32_t rank = 0; rank < 6; ++rank) {
      EXPECT_EQ(run.of(rank).collectives_started, 0u) << "rank " << rank;
      // Communicator 0 is that of the job, 1 and 2 are the side communicators of the two hosts, and
      // 3 joins the leaders of the hosts.
      const auto& host = run.world->simulation().context(1 + rank / 3, rank_of(rank % 3));
      EXPECT_EQ(host.counters().collectives_started, 8u) << "rank " << rank;
    }
    for (std::uint32_t host = 0; host < 2; ++host) {
      const auto& leader = run.world->simulation().context(3, rank_of(host));
      EXPECT_EQ(leader.counters().collectives_started, 5u) << "host " << host;
    }
  }
}

TEST(HierarchicalScenario, DeadRank_isNamedInTheErrorsOnAllHosts) {
  for (const char* connections : {"nic", "software"}) {
    SCOPED_TRACE(connections);
    // The verdict is ok only if each error names the dead rank by its number in the job.
    const Simulated run(by_hosts(connections, "death 5 at=30us\n"));
    ASSERT_TRUE(run.created.ok()) << run.created.to_string();
    EXPECT_TRUE(run.result.report.verdict.ok()) << run.result.report.verdict.to_string();
    run.expect_last_failed(5, 5);
  }
}

TEST(UcScenario, ScenarioWithUcAndASlotExchange_isRefused) {
  const Simulated run("topology=single:2 uc-fragments=2\ncommunicator ranks=2\nrun slot-barrier\n");
  EXPECT_EQ(run.created.code(), Code::invalid_argument);
  EXPECT_NE(run.created.message().find("use UD multicast"), std::string::npos)
      << run.created.message();
}

}  // namespace
}  // namespace tutti::simulation
