// Runs one scenario per seed: all scenarios must end, and runs of the same seed must be equal.
#include "sim/simulation/swarm.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>
#include <thread>

#include "count_wanted.hpp"
#include "sim/simulation/experiment.hpp"

namespace tutti::simulation {
namespace {

/// Number of seeds to run. The environment variable TUTTI_SWARM_SEEDS overrides the default.
std::uint64_t seeds() { return test::count_wanted("TUTTI_SWARM_SEEDS", 500); }

/// The text of a failure: the command that repeats it, and the shrunk scenario.
std::string explain(const SwarmSummary& summary, const SwarmOptions& options) {
  const Scenario small = shrink(
      draw_scenario(summary.failing_seed, options),
      [](const Scenario& one) { return !run_scenario(one).report.verdict.ok(); }, 1000);
  return fmt::format("seed {}: {}\nagain: {}\nor `tutti sim replay` of\n{}", summary.failing_seed,
                     summary.failure.to_string(), replay_command(summary.failing_seed, options),
                     small.to_string());
}

TEST(Swarm, ScenarioOfEverySeed_keepsAllInvariants) {
  const SwarmOptions options;
  const SwarmSummary summary = run_swarm(1, seeds(), options);
  EXPECT_FALSE(summary.found) << explain(summary, options);
  EXPECT_GT(summary.completed, 4 * summary.seeds);
}

TEST(Swarm, SummaryDoesNotDependOnTheNumberOfThreads) {
  const SwarmSummary alone = run_swarm(1, 300);
  const SwarmSummary together = run_swarm(1, 300, {}, {}, 3);
  EXPECT_EQ(together.digest, alone.digest);
  EXPECT_EQ(together.seeds, alone.seeds);
  EXPECT_EQ(together.events, alone.events);
}

TEST(Swarm, LargestSeed_isTheLastOfARange) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();
  for (const unsigned jobs : {1u, 3u}) {
    EXPECT_EQ(run_swarm(kLargest, kLargest, {}, {}, jobs).seeds, 1u);
    EXPECT_EQ(run_swarm(kLargest - 2, kLargest, {}, {}, jobs).seeds, 3u);
    EXPECT_EQ(run_swarm(3, 2, {}, {}, jobs).seeds, 0u);
  }
  // The range of all seeds is not run to its end: the exception ends it after the first batch.
  const auto stop = [](const SwarmSummary& summary) { throw summary.seeds; };
  EXPECT_THROW(
      {
        try {
          run_swarm(0, kLargest, {}, stop);
        } catch (const std::uint64_t& seeds) {
          EXPECT_EQ(seeds, 1u);
          throw;
        }
      },
      std::uint64_t);
}

TEST(Swarm, SwarmWithoutFurtherThreads_runsAllSeeds) {
  const SwarmSummary before = run_swarm(1, 20);
  pthread_attr_t usual;
  pthread_attr_t huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  // No address space has room for the stack of a further thread.
  ASSERT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 60), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  EXPECT_THROW(std::thread([] {}).join(), std::system_error);
  const SwarmSummary alone = run_swarm(1, 20, {}, {}, 4);
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(alone.seeds, 20u);
  EXPECT_EQ(alone.digest, before.digest);
}

TEST(Swarm, SameSeedGivesTheSameRun) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Scenario scenario = draw_scenario(seed);
    const ScenarioResult first = run_scenario(scenario);
    const ScenarioResult second = run_scenario(scenario);
    EXPECT_EQ(first.report.digest, second.report.digest) << replay_command(seed);
    EXPECT_EQ(first.report.events, second.report.events);
  }
}

TEST(Swarm, ParsedScenarioGivesTheSameRun) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Scenario scenario = draw_scenario(seed);
    const auto again = Scenario::parse(scenario.to_string());
    ASSERT_TRUE(again.ok()) << again.status().to_string();
    EXPECT_EQ(again->to_string(), scenario.to_string());
    EXPECT_EQ(run_scenario(*again).report.digest, run_scenario(scenario).report.digest)
        << scenario.to_string();
  }
}

TEST(Swarm, TextOfATopology_parsesToTheSameTopology) {
  for (const std::string text :
       {"single:7", "tree:4x3x2", "cluster188", "radix:32x3", "radix:32x3x1024"}) {
    const auto place = parse_place(text);
    ASSERT_TRUE(place) << place.status().to_string();
    EXPECT_EQ(to_string(*place), text);
    EXPECT_TRUE(make_topology(*place)) << text;
  }
  for (const char* text : {"", "ring:4", "radix:32", "radix:3x2x1x0", "single:x", "cluster188:1"}) {
    EXPECT_FALSE(parse_place(text)) << text;
  }
}

TEST(Swarm, FailingScenario_isShrunkToAFewLines) {
  // In this test a scenario counts as failing if some rank fetches a chunk. The shrunk scenario
  // must still fail and have few lines.
  const auto fetched = [](const Scenario& one) {
    auto made = ScenarioWorld::create(one);
    if (!made) return false;
    (*made)->run();
    for (std::uint32_t c = 0; c < one.communicators.size(); ++c) {
      for (std::uint32_t r = 0; r < one.communicators[c].ranks; ++r) {
        if ((*made)->simulation().context(c, rank_of(r)).counters().chunks_fetched > 0) return true;
      }
    }
    return false;
  };
  int shrunk = 0;
  int few_ranks = 0;
  for (std::uint64_t seed = 1; shrunk < 5 && seed < 200; ++seed) {
    const Scenario scenario = draw_scenario(seed);
    if (!fetched(scenario)) continue;
    const Scenario small = shrink(scenario, fetched, 2000);
    const std::string text = small.to_string();
    EXPECT_TRUE(fetched(small));
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 10) << text;
    few_ranks += small.communicators[0].ranks <= 4 ? 1 : 0;
    ++shrunk;
  }
  EXPECT_EQ(shrunk, 5);
  EXPECT_GE(few_ranks, 3);
}

/// Each file in TUTTI_REGRESSIONS holds a scenario that failed before a bug was fixed.
TEST(Swarm, ScenariosThatOnceFailed_nowSucceed) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TUTTI_REGRESSIONS)) {
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const auto scenario = Scenario::parse(text.str());
    ASSERT_TRUE(scenario.ok()) << entry.path() << ": " << scenario.status().to_string();
    const Status verdict = run_scenario(*scenario).report.verdict;
    EXPECT_TRUE(verdict.ok()) << entry.path() << ": " << verdict.to_string();
    ++count;
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace tutti::simulation
