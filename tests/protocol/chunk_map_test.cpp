#include "protocol/chunk_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <numeric>
#include <thread>
#include <vector>

#include "base/random.hpp"

namespace tutti::protocol {
namespace {

BlockLayout layout_of(std::uint32_t blocks, std::uint32_t chunks, std::uint32_t subgroups = 1) {
  BlockLayout layout(1, subgroups, chunks);
  for (std::uint32_t b = 0; b < blocks; ++b) {
    EXPECT_TRUE(layout.add(rank_of(b), std::uint64_t{b} * chunks, chunks));
  }
  return layout;
}

bool mark(ChunkMap& map, std::uint32_t psn) {
  const std::uint32_t b = map.layout().block_of(psn);
  return map.mark(b, map.layout().subgroup_of(map.layout().blocks()[b], psn), psn);
}

TEST(ChunkMap, RepeatedChunk_countsOnce_inAnyOrderOfArrival) {
  for (const std::uint32_t subgroups : {1u, 3u}) {
    const BlockLayout layout = layout_of(3, 321, subgroups);
    ChunkMap map(layout);
    std::vector<std::uint32_t> psns(layout.chunk_count());
    std::iota(psns.begin(), psns.end(), 0u);
    Random random(subgroups);
    for (std::size_t i = psns.size(); i > 1; --i) std::swap(psns[i - 1], psns[random.below(i)]);
    for (std::size_t i = 0; i < psns.size(); ++i) {
      ASSERT_FALSE(map.complete());
      ASSERT_FALSE(map.has(layout.block_of(psns[i]), psns[i]));
      ASSERT_TRUE(mark(map, psns[i]));
      ASSERT_FALSE(mark(map, psns[i])) << "a duplicate must not count as progress";
      ASSERT_TRUE(map.has(layout.block_of(psns[i]), psns[i]));
      ASSERT_EQ(map.marked(), i + 1);
    }
    EXPECT_TRUE(map.complete());
  }
}

TEST(ChunkMap, MarkedRun_countsOnlyChunksThatWereNotMarkedBefore) {
  const BlockLayout layout = layout_of(2, 200, 2);
  ChunkMap map(layout);
  EXPECT_TRUE(mark(map, 205));
  EXPECT_EQ(map.mark_run(1, {200, 210}), 9u);
  EXPECT_EQ(map.mark_run(1, {200, 210}), 0u);
  EXPECT_EQ(map.mark_run(0, {0, 200}), 200u);
  EXPECT_EQ(map.marked(), 210u);
}

TEST(ChunkMap, MissingRuns_withinAndAcrossBitmapWords_areFound) {
  const BlockLayout layout = layout_of(2, 300);
  ChunkMap map(layout);
  map.mark_run(1, layout.blocks()[1].psns);
  EXPECT_TRUE(map.first_missing(1, {300, 600}).empty());
  for (std::uint32_t psn = 0; psn < 300; ++psn) {
    if (psn % 7 != 0 && (psn < 120 || psn >= 200)) mark(map, psn);
  }
  std::vector<Range> runs;
  for (Range rest{0, 300}; !rest.empty();) {
    const Range missing = map.first_missing(0, rest);
    if (missing.empty()) break;
    runs.push_back(missing);
    rest.first = missing.last;
  }
  std::uint32_t missing_chunks = 0;
  for (const Range run : runs) {
    missing_chunks += run.size();
    for (std::uint32_t psn = run.first; psn < run.last; ++psn) EXPECT_FALSE(map.has(0, psn));
  }
  EXPECT_EQ(missing_chunks, 300 - (map.marked() - 300));
  EXPECT_NE(std::find(runs.begin(), runs.end(), Range{119, 200}), runs.end());
}

TEST(ChunkMap, HighestMulticastPsn_isKnownForEachBlockAndSubgroup) {
  // Each subgroup has a slice of 128 chunks in each block.
  const BlockLayout layout = layout_of(2, 256, 2);
  ChunkMap map(layout);
  EXPECT_EQ(map.horizon(1, 0), 256u);
  EXPECT_EQ(map.horizon(1, 1), 256u);
  mark(map, 256 + 130);
  EXPECT_EQ(map.horizon(1, 0), 256u);
  EXPECT_EQ(map.horizon(1, 1), 256u + 131);
  mark(map, 256 + 129);
  EXPECT_EQ(map.horizon(1, 1), 256u + 131);
  // horizon() ignores chunks that this rank fetched by READ, because they are no multicast
  // arrivals.
  map.mark_run(1, {256, 300});
  EXPECT_EQ(map.horizon(1, 0), 256u);
}

// Workers mark the chunks that arrive by multicast, while the owner of the engine marks chunks that
// it READs. Of three chunks in a row one only arrives, one is only READ, and one does both.
TEST(ChunkMap, WorkersAndOwner_markChunksConcurrently_andEachMarkCountsOnce) {
  constexpr std::uint32_t kBlocks = 5;
  constexpr std::uint32_t kWorkers = 4;
  const BlockLayout layout = layout_of(kBlocks, 1000, kWorkers);
  for (int round = 0; round < 50; ++round) {
    ChunkMap map(layout);
    std::barrier start(kWorkers + 1);
    const auto visit_chunks = [&](const auto& visit) {
      start.arrive_and_wait();
      for (std::uint32_t b = 0; b < kBlocks; ++b) {
        const Range psns = layout.blocks()[b].psns;
        for (std::uint32_t psn = psns.first; psn < psns.last; ++psn) visit(b, psn);
      }
    };
    std::vector<std::thread> workers;
    for (std::uint32_t s = 0; s < kWorkers; ++s) {
      workers.emplace_back([&, s] {
        visit_chunks([&](std::uint32_t b, std::uint32_t psn) {
          if (psn % 3 == 0 || layout.subgroup_of(layout.blocks()[b], psn) != s) return;
          map.count(s, map.mark_atomic(b, s, psn) ? 1 : 0);
        });
      });
    }
    visit_chunks([&](std::uint32_t b, std::uint32_t psn) {
      if (psn % 3 != 1) map.mark_run(b, {psn, psn + 1});
    });
    for (std::thread& worker : workers) worker.join();
    ASSERT_EQ(map.marked(), layout.chunk_count()) << "a mark was lost or counted twice";
    ASSERT_TRUE(map.complete());
  }
}

}  // namespace
}  // namespace tutti::protocol
