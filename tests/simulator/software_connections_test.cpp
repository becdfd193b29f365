// Tests simulated endpoints with the reliable connections of device/rc. The software of the host
// must survive each fault or report it.
#include <gtest/gtest.h>

#include <string>

#include "sim/simulation/scenario_run.hpp"

namespace tutti::simulation {
namespace {

/// Runs a scenario, expects that its verdict is ok, and sums the device counters of all ranks of
/// the first communicator.
struct Outcome {
  explicit Outcome(const std::string& text) {
    auto scenario = Scenario::parse(text);
    EXPECT_TRUE(scenario) << scenario.status().to_string();
    auto world = ScenarioWorld::create(*scenario);
    EXPECT_TRUE(world) << world.status().to_string();
    result = (*world)->run();
    EXPECT_TRUE(result.report.verdict.ok()) << result.report.verdict.to_string();
    for (std::uint32_t r = 0; r < scenario->communicators[0].ranks; ++r) {
      const auto one = (*world)->simulation().endpoint(0, rank_of(r)).counters();
      entries_requested +=
          (*world)->simulation().context(0, rank_of(r)).counters().slot_entries_requested;
      counters.reliable_frames_sent += one.reliable_frames_sent;
      counters.reliable_frames_resent += one.reliable_frames_resent;
      counters.reliable_frames_received += one.reliable_frames_received;
      counters.reliable_frames_duplicate += one.reliable_frames_duplicate;
      counters.rejected_foreign += one.rejected_foreign;
      counters.rejected_integrity += one.rejected_integrity;
      counters.rejected_replayed += one.rejected_replayed;
      counters.kernel_drops += one.kernel_drops;
      counters.send_queue_full += one.send_queue_full;
    }
  }

  ScenarioResult result;
  device::EndpointCounters counters;
  std::uint64_t entries_requested = 0;
};

TEST(SoftwareConnections, Allgather_onANetworkThatLosesPackets_completes) {
  const Outcome run(
      "seed=3 connections=software topology=single:4 loss-ppm=50000\n"
      "communicator ranks=4 chunk=256\n"
      "run allgather:2000 allgather:300\n");
  EXPECT_EQ(run.result.report.completed, 8u);
  EXPECT_FALSE(run.result.losses.empty());
  EXPECT_GT(run.counters.reliable_frames_resent, 0u);
  EXPECT_LT(run.counters.reliable_frames_received, run.counters.reliable_frames_sent);
  EXPECT_EQ(run.counters.rejected_foreign + run.counters.rejected_integrity, 0u);
}

TEST(SoftwareConnections, EveryKindOfCollective_withoutLoss_resendsNothing) {
  const Outcome run(
      "seed=4 connections=software topology=tree:2x3x2\n"
      "communicator ranks=6 chunk=256\n"
      "run allgather:900 broadcast:900:1 ring-allgather:700 chain-broadcast:1000:2 barrier\n");
  EXPECT_EQ(run.result.report.completed, 30u);
  EXPECT_EQ(run.counters.reliable_frames_received, run.counters.reliable_frames_sent);
  EXPECT_EQ(run.counters.reliable_frames_resent, 0u);
  EXPECT_EQ(run.counters.reliable_frames_duplicate, 0u);
}

TEST(SoftwareConnections, FramesRepeatedByTheFrameTap_haveNoEffect) {
  const Outcome run(
      "seed=5 connections=software topology=single:3\n"
      "communicator ranks=3 chunk=128\n"
      "run ring-allgather:1000 chain-broadcast:900:1\n"
      "fault seed=2; duplicate sender reliable rate=50%\n");
  EXPECT_FALSE(run.result.frames[0].empty());
  EXPECT_GT(run.counters.reliable_frames_duplicate, 0u);
}

TEST(SoftwareConnections, RankThatIsStopped_forLessThanThePeerTimeout_losesNothing) {
  const Outcome run(
      "seed=6 connections=software topology=single:4\n"
      "communicator ranks=4 chunk=256 peer-timeout=1s reorder=5ms alpha=5ms\n"
      "run allgather:2000 barrier\n"
      "pause 2 at=5us for=800ms\n");
  EXPECT_EQ(run.result.report.completed, 8u);
  EXPECT_GT(run.result.report.ended, Instant{800'000'000});
}

TEST(SoftwareConnections, RankThatIsStopped_forLongerThanThePeerTimeout_isNamedInTheError) {
  const Outcome run(
      "seed=6 connections=software topology=single:4\n"
      "communicator ranks=4 chunk=256 peer-timeout=1s reorder=5ms alpha=5ms\n"
      "run allgather:2000 barrier\n"
      "pause 2 at=5us for=3s\n");
  EXPECT_EQ(run.result.report.failed, 8u);
}

TEST(SoftwareConnections, PathThatLosesLongPackets_endsEveryCollectiveWithAnError) {
  const Outcome run(
      "seed=7 connections=software topology=single:3\n"
      "communicator ranks=3 chunk=512 peer-timeout=1s reorder=5ms alpha=5ms\n"
      "run ring-allgather:3000\n"
      "path 0>1 at=0ns above=300\n");
  EXPECT_EQ(run.result.report.failed, 3u);
  EXPECT_GE(run.result.path_losses, 12u);
}

TEST(SoftwareConnections, RecordedFramesThatArriveAgain_haveNoEffect) {
  const Outcome run(
      "seed=8 connections=software topology=single:3\n"
      "communicator ranks=3 chunk=256 peer-timeout=1s\n"
      "run ring-allgather:3000 chain-broadcast:2000:1 barrier\n"
      "replay 0>1 #1 after=10us\nreplay 0>1 #3 after=1ms\nreplay 1>2 #2 after=0ns\n");
  EXPECT_EQ(run.result.report.completed, 9u);
  EXPECT_EQ(run.result.replayed, 3u);
  EXPECT_EQ(run.counters.rejected_replayed, 3u);
  EXPECT_EQ(run.counters.reliable_frames_duplicate, 0u) << "no copy reached a connection";
}

TEST(SoftwareConnections, DatagramsOfAStranger_areRefusedAndCounted) {
  const Outcome run(
      "seed=8 connections=software topology=single:3\n"
      "communicator ranks=3 chunk=256 peer-timeout=1s\n"
      "run ring-allgather:3000 chain-broadcast:2000:1 barrier\n"
      "pause 2 at=0ns for=300ms\n"
      "replay 0>1 #1 after=10us every=1ms forged=bit\nreplay 0>1 #2 after=1us every=1ms "
      "forged=counter\n"
      "replay 0>1 #3 after=1us every=1ms forged=address\nreplay 0>1 #4 after=1us every=1ms\n"
      "replay 0>1 #0 after=1us every=1ms forged=reflection\n");
  EXPECT_EQ(run.result.report.completed, 9u);
  EXPECT_GT(run.result.replayed, 1000u);
  EXPECT_EQ(run.result.report.strangers_refused, run.counters.rejected_replayed +
                                                     run.counters.rejected_integrity +
                                                     run.counters.rejected_foreign);
  EXPECT_GT(run.counters.rejected_replayed, 200u);
  EXPECT_GT(run.counters.rejected_integrity, 200u);
  EXPECT_GT(run.counters.rejected_foreign, 400u);
}

TEST(SoftwareConnections, RepeatedFramesOfADeadRank_areNoSignOfLife) {
  const Outcome run(
      "seed=8 connections=software topology=single:3\n"
      "communicator ranks=3 chunk=256 peer-timeout=1s\n"
      "run ring-allgather:3000 barrier\n"
      "death 0 at=5us\n"
      "replay 0>1 #0 after=10us every=50ms\nreplay 0>2 #0 after=10us every=50ms\n");
  EXPECT_GT(run.result.report.failed, 0u);
  EXPECT_LT(run.result.report.ended, Instant{1'400'000'000});
  EXPECT_GT(run.counters.rejected_replayed, 10u);
}

// Link 0 leads from rank 0 to the switch, and link 4 from the switch to rank 0. If link 4 is down,
// rank 0 hears no other rank and reports one of them as lost, but the other ranks must not believe
// this report.
TEST(SoftwareConnections, RankThatIsCutOffInOneDirection_isNamedByAllRanks) {
  for (const char* link : {"0", "4"}) {
    const Outcome run(std::string("seed=8 connections=software topology=single:4\n"
                                  "communicator ranks=4 chunk=256 peer-timeout=1s\n"
                                  "run ring-allgather:3000 allgather:3000\n"
                                  "outage ") +
                      link + " at=3us for=5s one-way\n");
    EXPECT_EQ(run.result.report.failed, 8u) << link;
  }
}

TEST(SoftwareConnections, SlotExchanges_onANetworkThatLosesPackets_complete) {
  const Outcome run(
      "seed=9 connections=software topology=single:4 loss-ppm=50000\n"
      "communicator ranks=4 chunk=256\n"
      "run slot-allgather:600 slot-broadcast:900:2 slot-barrier slot-allgather:40 slot-barrier\n");
  EXPECT_EQ(run.result.report.completed, 20u);
  EXPECT_FALSE(run.result.losses.empty());
  EXPECT_GT(run.entries_requested, 0u) << "a lost entry must be asked for";
}

TEST(SoftwareConnections, RankStoppedBeyondThePeerTimeout_inASlotExchange_isNamedInTheError) {
  const Outcome run(
      "seed=10 connections=software topology=single:4\n"
      "communicator ranks=4 chunk=256 peer-timeout=1s\n"
      "run slot-barrier slot-allgather:600\n"
      "pause 2 at=0ns for=3s\n");
  // When rank 2 continues after its pause, it may still complete the barrier, because the entries
  // of the other ranks have arrived by then.
  EXPECT_GE(run.result.report.failed, 7u);
  EXPECT_LT(run.result.report.events, 50'000u) << "late entries must not wake a failed rank";
}

TEST(SoftwareConnections, Scenario_withoutPayloadOrWithTooShortAPeerTimeout_isRefused) {
  const auto no_bytes = Scenario::parse(
      "connections=software carry=no topology=single:2\ncommunicator ranks=2\nrun barrier\n");
  ASSERT_TRUE(no_bytes);
  EXPECT_EQ(ScenarioWorld::create(*no_bytes).status().code(), Code::invalid_argument);
  const auto impatient = Scenario::parse(
      "connections=software topology=single:2\ncommunicator ranks=2 peer-timeout=1ms\n"
      "run barrier\n");
  ASSERT_TRUE(impatient);
  EXPECT_EQ(ScenarioWorld::create(*impatient).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace tutti::simulation
