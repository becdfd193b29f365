#include "protocol/loss_scanner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/random.hpp"

namespace tutti::protocol {
namespace {

class LossScannerTest : public testing::Test {
 protected:
  void build(std::uint32_t blocks, std::uint32_t chunks, std::uint32_t subgroups = 1) {
    layout_ = BlockLayout(1, subgroups, chunks);
    for (std::uint32_t b = 0; b < blocks; ++b) {
      ASSERT_TRUE(layout_.add(rank_of(b), std::uint64_t{b} * chunks, chunks));
    }
    map_ = std::make_unique<ChunkMap>(layout_);
    scanner_ = std::make_unique<LossScanner>(*map_);
  }
  void arrive(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t psn = first; psn < last; ++psn) {
      const std::uint32_t b = layout_.block_of(psn);
      map_->mark(b, layout_.subgroup_of(layout_.blocks()[b], psn), psn);
    }
  }
  std::vector<Range> tick() {
    std::vector<LostRun> runs;
    scanner_->tick(runs);
    std::vector<Range> ranges;
    for (const LostRun& run : runs) {
      EXPECT_EQ(run.block_index, layout_.block_of(run.psns.first));
      ranges.push_back(run.psns);
    }
    return ranges;
  }

  BlockLayout layout_;
  std::unique_ptr<ChunkMap> map_;
  std::unique_ptr<LossScanner> scanner_;
};

using Ranges = std::vector<Range>;

TEST_F(LossScannerTest, MissingChunk_isLostOneTickAfterLaterChunksArrived) {
  build(1, 10);
  arrive(0, 3);
  arrive(5, 7);
  EXPECT_EQ(tick(), Ranges{});
  EXPECT_EQ(tick(), (Ranges{{3, 5}}));
  EXPECT_EQ(tick(), Ranges{}) << "a loss must be reported only once";
}

TEST_F(LossScannerTest, ChunksReorderedWithinATick_areNotLost) {
  build(1, 10);
  arrive(4, 5);
  EXPECT_EQ(tick(), Ranges{});
  arrive(0, 4);
  EXPECT_EQ(tick(), Ranges{});
  EXPECT_EQ(tick(), Ranges{});
}

TEST_F(LossScannerTest, ChunksAfterTheLastArrival_areNotDeclaredLost) {
  build(2, 10);
  arrive(0, 5);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(tick(), Ranges{});
}

TEST_F(LossScannerTest, MissingTailOfABlock_isLostOneTickAfterTheEndOfTheBlock) {
  build(2, 10);
  arrive(0, 5);
  scanner_->ended(0);
  EXPECT_EQ(tick(), Ranges{});
  EXPECT_EQ(tick(), (Ranges{{5, 10}}));
  EXPECT_EQ(tick(), Ranges{});
}

TEST_F(LossScannerTest, BlockWithoutArrivals_isLostOneTickAfterItsEnd) {
  build(3, 100);
  scanner_->ended(1);
  EXPECT_EQ(tick(), Ranges{});
  EXPECT_EQ(tick(), (Ranges{{100, 200}}));
}

TEST_F(LossScannerTest, Arrivals_ofOneSubgroup_proveNoLossInAnother) {
  build(1, 256, 2);  // layout with slices of 128 chunks
  arrive(128, 256);  // arrivals of the second subgroup do not prove losses in the first
  EXPECT_EQ(tick(), Ranges{});
  EXPECT_EQ(tick(), Ranges{});
  arrive(0, 10);
  arrive(12, 20);
  EXPECT_EQ(tick(), Ranges{});
  EXPECT_EQ(tick(), (Ranges{{10, 12}}));
}

TEST_F(LossScannerTest, RandomLossesAreEachFoundOnce) {
  for (const std::uint32_t subgroups : {1u, 2u, 3u}) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      build(3, 1000, subgroups);
      Random random(seed);
      std::set<std::uint32_t> missing;
      std::set<std::uint32_t> reported;
      for (std::uint32_t psn = 0; psn < layout_.chunk_count(); ++psn) {
        if (random.chance_ppm(50'000)) {
          missing.insert(psn);
        } else {
          arrive(psn, psn + 1);
        }
        if (psn % 100 != 0) continue;
        for (const Range run : tick()) {
          for (std::uint32_t p = run.first; p < run.last; ++p) {
            ASSERT_TRUE(reported.insert(p).second) << "chunk " << p << " was reported twice";
          }
        }
      }
      for (std::uint32_t b = 0; b < 3; ++b) scanner_->ended(b);
      for (int i = 0; i < 3; ++i) {
        for (const Range run : tick()) {
          for (std::uint32_t p = run.first; p < run.last; ++p) {
            ASSERT_TRUE(reported.insert(p).second) << "chunk " << p << " was reported twice";
          }
        }
      }
      ASSERT_EQ(reported, missing) << "subgroups " << subgroups << " seed " << seed;
    }
  }
}

}  // namespace
}  // namespace tutti::protocol
