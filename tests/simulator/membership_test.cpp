// Tests, in virtual time, networks that drop multicast after a job has run for ten minutes. If a
// switch forgets the membership of a rank, the rank restores its membership by joining again. If
// the network drops all multicast, each rank reports the loss once. If multicast to a rank is
// blocked for only a minute, the rank receives by multicast again afterwards.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/simulation/scenario_run.hpp"

namespace tutti::simulation {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::uint32_t kDeaf = 2;
constexpr Instant kTenMinutes{600'000'000'000};

/// A round of collectives by multicast, by slot exchange and from rank to rank, with several roots
/// and sizes; some blocks exceed the receive window, and short ones need no handshake.
std::string round_of_collectives(std::uint32_t number) {
  const std::uint32_t root = number % kRanks;
  return fmt::format(
      " allgather:{} broadcast:{}:{} broadcast:9000:{} slot-allgather:64 slot-broadcast:700:{} "
      "slot-barrier ring-allgather:500 chain-broadcast:3000:{} barrier gather:700:{} "
      "scatter:300:{} "
      "alltoall:900 reduce:800:{} reduce-scatter:640 allreduce:2048",
      1500 + number % 7 * 512, 200 + number % 5 * 100, root, (root + 1) % kRanks, root, root, root,
      root, root);
}

/// A job of about twelve minutes. Its ranks compute for up to 200 ms between two collectives.
std::string long_job(const std::string& faults) {
  std::string text = fmt::format(
      "seed=3 topology=single:{0} limit=40000s connections=software\n"
      "communicator ranks={0} chunk=256 staging=64 keep=1000 compute=200ms peer-timeout=20s\nrun",
      kRanks);
  for (std::uint32_t number = 0; number < 320; ++number) text += round_of_collectives(number);
  return text + "\n" + faults;
}

struct Job {
  explicit Job(const std::string& faults) {
    const auto scenario = Scenario::parse(long_job(faults));
    EXPECT_TRUE(scenario.ok()) << scenario.status().to_string();
    if (!scenario) return;
    auto made = ScenarioWorld::create(*scenario);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (!made) return;
    world = std::move(*made);
    result = world->run();
    // The verdict is ok only if every byte of every collective is right.
    EXPECT_TRUE(result.report.verdict.ok()) << result.report.verdict.to_string();
    EXPECT_GT(result.report.ended, kTenMinutes + Nanoseconds(100'000'000'000));
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      const observe::Counters& counters = of(rank);
      fmt::print(
          "[ figures  ] {}: rank {} of {}, {} collectives in {} s: multicast_fallbacks {}, "
          "multicast_rejoins {}, chunks_fetched {}, chunks_received {}, slot_entries_requested "
          "{}\n",
          faults.empty() ? "no fault" : faults.substr(0, faults.find('\n')), rank, kRanks,
          counters.collectives_completed, result.report.ended.nanoseconds / 1'000'000'000,
          counters.multicast_fallbacks, counters.multicast_rejoins, counters.chunks_fetched,
          counters.chunks_received, counters.slot_entries_requested);
    }
  }
  const observe::Counters& of(std::uint32_t rank) const {
    return world->simulation().context(0, rank_of(rank)).counters();
  }
  std::uint64_t group_losses() const { return world->simulation().network().group_losses(); }

  std::unique_ptr<ScenarioWorld> world;
  ScenarioResult result;
};

TEST(MembershipInLongJob, NetworkThatPassesMulticast_causesNoRejoin) {
  const Job job("");
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(job.of(rank).multicast_fallbacks, 0u) << "rank " << rank;
    EXPECT_EQ(job.of(rank).multicast_rejoins, 0u) << "rank " << rank;
  }
  EXPECT_TRUE(job.result.report.unheard.empty());
}

TEST(MembershipInLongJob, MembershipThatASwitchDropped_isRestoredByOneRejoin) {
  const Job job(fmt::format("multicast {} expired at=600s\n", kDeaf));
  const Job unhurt("");
  EXPECT_GT(job.group_losses(), 0u);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(job.of(rank).multicast_rejoins, rank == kDeaf ? 1u : 0u) << "rank " << rank;
  }
  // Without the rejoin, rank kDeaf would fetch all blocks in the last sixth of the job.
  const observe::Counters& deaf = job.of(kDeaf);
  EXPECT_GE(deaf.multicast_fallbacks, 3u);
  EXPECT_LE(deaf.multicast_fallbacks, 20u);
  EXPECT_GT(deaf.chunks_fetched, 0u);
  EXPECT_GT(deaf.chunks_received, unhurt.of(kDeaf).chunks_received * 95 / 100);
  EXPECT_TRUE(job.result.report.unheard.empty());
}

TEST(MembershipInLongJob, NetworkThatDropsAllMulticast_isReportedOnceByEachRank) {
  std::string faults;
  for (std::uint32_t host = 0; host < kRanks; ++host)
    faults += fmt::format("multicast {} blocked at=600s\n", host);
  const Job job(faults);
  EXPECT_GT(job.group_losses(), 0u);
  std::vector<std::uint32_t> reports(kRanks);
  for (const UnheardSource& one : job.result.report.unheard) ++reports[index(one.rank)];
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(reports[rank], 1u) << "rank " << rank;
    EXPECT_GE(job.of(rank).multicast_rejoins, 2u) << "rank " << rank;
    EXPECT_GT(job.of(rank).multicast_fallbacks, 30u) << "rank " << rank;
  }
}

TEST(MembershipInLongJob, MulticastBlockedForAMinute_isUsedAgainAfterwards) {
  const Job job(fmt::format("multicast {} blocked at=600s for=60s\n", kDeaf));
  ASSERT_EQ(job.result.report.unheard.size(), 1u);
  EXPECT_EQ(index(job.result.report.unheard.front().rank), kDeaf);
  const Job unhurt("");
  EXPECT_GT(job.of(kDeaf).chunks_received, unhurt.of(kDeaf).chunks_received * 85 / 100);
}

}  // namespace
}  // namespace tutti::simulation
