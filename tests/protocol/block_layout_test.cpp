#include "protocol/block_layout.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::protocol {
namespace {

struct Shape {
  std::uint32_t ranks;
  std::uint64_t block_bytes;
  std::uint32_t chunk_bytes;
  std::uint32_t subgroups;
  std::uint64_t segment_bytes;
};

BlockLayout gather(const Shape& shape) {
  BlockLayout layout(shape.chunk_bytes, shape.subgroups, shape.segment_bytes);
  for (std::uint32_t r = 0; r < shape.ranks; ++r) {
    EXPECT_TRUE(layout.add(rank_of(r), r * shape.block_bytes, shape.block_bytes));
  }
  return layout;
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const std::uint32_t ranks : {1u, 2u, 3u, 7u}) {
    for (const std::uint64_t block : {1u, 63u, 64u, 65u, 4096u, 100'003u}) {
      for (const std::uint32_t chunk : {32u, 64u, 1000u}) {
        for (const std::uint32_t subgroups : {1u, 2u, 5u}) {
          all.push_back({ranks, block, chunk, subgroups, block});
          all.push_back({ranks, block, chunk, subgroups, 10'000});
        }
      }
    }
  }
  return all;
}

TEST(BlockLayout, ChunksCoverTheBufferExactlyOnce) {
  for (const Shape& shape : shapes()) {
    const BlockLayout layout = gather(shape);
    std::uint64_t at = 0;
    for (std::uint32_t psn = 0; psn < layout.chunk_count(); ++psn) {
      const Block& block = layout.blocks()[layout.block_of(psn)];
      ASSERT_GE(psn, block.psns.first);
      ASSERT_LT(psn, block.psns.last);
      ASSERT_EQ(layout.offset_of(block, psn), at);
      const std::uint32_t length = layout.length_of(block, psn);
      ASSERT_GT(length, 0u);
      ASSERT_LE(length, shape.chunk_bytes);
      at += length;
    }
    ASSERT_EQ(at, shape.ranks * shape.block_bytes);
  }
}

TEST(BlockLayout, BytesOfAChunkRun_areTheSumOfItsChunkLengths) {
  const BlockLayout layout = gather({3, 1000, 64, 1, 1000});
  for (const Block& block : layout.blocks()) {
    for (std::uint32_t first = block.psns.first; first < block.psns.last; ++first) {
      std::uint64_t sum = 0;
      EXPECT_EQ(layout.bytes_of(block, {first, first}), 0u);
      for (std::uint32_t last = first; last < block.psns.last; ++last) {
        sum += layout.length_of(block, last);
        EXPECT_EQ(layout.bytes_of(block, {first, last + 1}), sum);
      }
    }
  }
}

TEST(BlockLayout, ConsecutiveSlicesOfABlock_belongToTheSubgroupsInTurn) {
  for (const Shape& shape : shapes()) {
    const BlockLayout layout = gather(shape);
    ASSERT_EQ(layout.slice_chunks() % 64, 0u);
    ASSERT_EQ(layout.segment_chunks(), layout.slice_chunks() * shape.subgroups);
    for (const Block& block : layout.blocks()) {
      for (std::uint32_t psn = block.psns.first; psn < block.psns.last; ++psn) {
        const std::uint32_t expected =
            (psn - block.psns.first) / layout.slice_chunks() % shape.subgroups;
        ASSERT_EQ(layout.subgroup_of(block, psn), expected);
      }
    }
  }
}

TEST(BlockLayout, EmptyBlocksHaveNoChunks) {
  BlockLayout layout(64, 1, 64);
  EXPECT_EQ(layout.chunk_count(), 0u);
  EXPECT_TRUE(layout.add(rank_of(0), 0, 0));
  EXPECT_TRUE(layout.add(rank_of(1), 0, 65));
  EXPECT_TRUE(layout.add(rank_of(2), 65, 0));
  EXPECT_EQ(layout.chunk_count(), 2u);
  EXPECT_EQ(layout.block_of(0), 1u);
  EXPECT_EQ(layout.block_of(1), 1u);
}

TEST(BlockLayout, MoreChunksThanPsnsAreRefused) {
  BlockLayout layout(1, 1, 1);
  EXPECT_TRUE(layout.add(rank_of(0), 0, 0xffff'fff0u));
  EXPECT_FALSE(layout.add(rank_of(1), 0xffff'fff0u, 0x10));
  EXPECT_TRUE(layout.add(rank_of(1), 0xffff'fff0u, 0x0f));
  EXPECT_EQ(layout.blocks().size(), 2u);
}

TEST(BlockLayout, BlockOfNearlyAllAddressableBytes_isRefused) {
  BlockLayout layout(64, 1, 64);
  EXPECT_FALSE(layout.add(rank_of(0), 0, ~std::uint64_t{0}));
}

}  // namespace
}  // namespace tutti::protocol
