// Runs collectives of three ranks and a few chunks through every order of arrival and every set of
// losses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/simulation/explorer.hpp"

namespace tutti::simulation {
namespace {

constexpr std::uint32_t kChunk = 32;

ExplorerSpec three_ranks(CollectiveKind kind, std::uint32_t chunks) {
  ExplorerSpec spec;
  spec.chunk_bytes = kChunk;
  spec.collectives = {{.kind = kind, .bytes = std::uint64_t{chunks} * kChunk, .in_place = true}};
  return spec;
}

void expect_all_seen(const ExplorerReport& report) {
  EXPECT_TRUE(report.verdict.ok()) << report.verdict.to_string() << "\n" << report.path;
  EXPECT_TRUE(report.complete);
  testing::Test::RecordProperty("states", static_cast<int>(report.states));
  fmt::print("{} states, {} ends, {} steps of which {} changed nothing\n", report.states,
             report.ends, report.steps, report.idle_steps);
}

TEST(Exhaustive, BroadcastOfTwoChunks_withAnyLossInAnyOrder_completes) {
  const ExplorerReport report = explore_all_losses(three_ranks(CollectiveKind::broadcast, 2), 2);
  expect_all_seen(report);
  EXPECT_GT(report.states, 1'000u);
}

TEST(Exhaustive, BroadcastAfterAReadyBarrier_withAnyLossInAnyOrder_completes) {
  ExplorerSpec spec = three_ranks(CollectiveKind::broadcast, 1);
  spec.always_barrier = true;
  expect_all_seen(explore_all_losses(spec, 1));
}

TEST(Exhaustive, Broadcasts_acrossTheWrapOfTheEpoch_inAnyOrder_complete) {
  ExplorerSpec spec = three_ranks(CollectiveKind::broadcast, 2);
  spec.first_epoch = 0xffff'ffffu;
  spec.collectives.push_back(spec.collectives[0]);
  spec.collectives[1].bytes = kChunk;
  spec.collectives[1].root = rank_of(2);
  expect_all_seen(explore(spec));
}

TEST(Exhaustive, RetainedBlocks_withAnyLossInAnyOrder_areReceivedByAllRanks) {
  ExplorerSpec spec = three_ranks(CollectiveKind::broadcast, 1);
  spec.retain_bytes = kChunk;
  spec.collectives.push_back(spec.collectives[0]);
  spec.collectives[1].root = rank_of(2);
  const ExplorerReport report = explore_all_losses(spec, 2);
  expect_all_seen(report);
  EXPECT_GT(report.states, 1'000u);
  // Ranks 1 and 2 may lose the first chunk, ranks 0 and 1 the second.
  std::uint64_t states = 0;
  for (const std::uint32_t first : {0b000u, 0b010u, 0b100u, 0b110u}) {
    for (const std::uint32_t second : {0b000u, 0b001u, 0b010u, 0b011u}) {
      spec.lost = {first, second};
      states += explore(spec).states;
    }
  }
  EXPECT_EQ(report.states, states);
}

TEST(Exhaustive, AllgatherOfOneChunkPerRank_withAnyLossInAnyOrder_completes) {
  const ExplorerReport report = explore_all_losses(three_ranks(CollectiveKind::allgather, 1), 3);
  expect_all_seen(report);
  EXPECT_GT(report.states, 5'000u);
}

TEST(Exhaustive, AllgatherOfTwoChunksPerRank_inAnyOrder_completes) {
  ExplorerSpec spec = three_ranks(CollectiveKind::allgather, 2);
  spec.max_states = 20'000'000;
  expect_all_seen(explore(spec));
}

}  // namespace
}  // namespace tutti::simulation
