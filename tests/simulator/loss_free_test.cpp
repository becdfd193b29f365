// Tests that a network without losses causes no retransmission, for any order of timers.
#include <gtest/gtest.h>

#include "sim/simulation/scenario_run.hpp"

namespace tutti::simulation {
namespace {

constexpr std::uint32_t kRanks = 32;

/// An Allgather whose ranks take turns, on a network without losses.
Scenario turns(Nanoseconds alpha) {
  Scenario scenario;
  scenario.lossless = true;
  scenario.place.hosts = kRanks;
  ScenarioCommunicator& one = scenario.communicators.emplace_back();
  one.ranks = kRanks;
  one.chunk_bytes = 256;
  one.alpha = alpha;
  one.collectives.push_back({.kind = CollectiveKind::allgather, .bytes = 512});
  return scenario;
}

struct Outcome {
  Status verdict;
  std::uint64_t repeated = 0;
  Nanoseconds time{};
};

Outcome run(const Scenario& scenario) {
  const auto made = ScenarioWorld::create(scenario);
  if (!made) return {.verdict = made.status()};
  Outcome outcome{.verdict = (*made)->run().report.verdict};
  Simulation& simulation = (*made)->simulation();
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    outcome.repeated += simulation.context(0, rank_of(r)).counters().tail_probes;
    const CollectiveEnd& end = simulation.end_of(0, rank_of(r), 0);
    outcome.time = std::max(outcome.time, end.ended_at - end.submitted_at);
  }
  return outcome;
}

// A rank may send a tail probe only if no chunk arrives for a silence timeout (`alpha`). In some
// runs this timeout, counted from the rank's own last chunk, ends while other ranks still send.
TEST(LossFree, Rank_sendsNoTailProbe_whileOtherRanksSendOrFinish) {
  const Nanoseconds whole = run(turns(Nanoseconds(10'000'000))).time;
  ASSERT_GT(whole, Nanoseconds(40'000));
  std::uint32_t runs = 0;
  for (Nanoseconds alpha{20'000}; alpha < whole; alpha += Nanoseconds(200)) {
    const Outcome outcome = run(turns(alpha));
    ASSERT_TRUE(outcome.verdict.ok()) << outcome.verdict.to_string();
    ASSERT_EQ(outcome.repeated, 0u) << "alpha " << alpha.count() << " ns of " << whole.count();
    ++runs;
  }
  EXPECT_GT(runs, 100u);
}

}  // namespace
}  // namespace tutti::simulation
