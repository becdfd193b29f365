// Tests plans of hierarchical collectives by carrying them out on plain memory in many orders. The
// result at every rank must be right, whichever rank is slow.
#include "hierarchy/hierarchy_plan.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace tutti::hierarchy {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of_rank(std::uint32_t rank, std::size_t size) {
  std::mt19937 random(rank + 1);
  Bytes bytes(size);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  return bytes;
}

/// All ranks of a call, each with buffers of its own.
class Job {
 public:
  Job(const HostLayout& layout, bool groups, Collective collective, std::size_t block_bytes,
      std::uint32_t root)
      : layout_(layout) {
    const std::size_t blocks = collective == Collective::allgather ? layout.ranks() : 1;
    for (std::uint32_t r = 0; r < layout.ranks(); ++r) {
      Member& member = members_.emplace_back();
      member.send = bytes_of_rank(r, block_bytes);
      member.receive.assign(blocks * block_bytes, std::byte{0xee});
      if (collective == Collective::broadcast && r == root) member.receive = member.send;
    }
    for (std::uint32_t r = 0; r < layout.ranks(); ++r) {
      CollectiveCall call{
          .collective = collective, .receive = members_[r].receive, .root = rank_of(root)};
      if (collective == Collective::allgather) call.send = members_[r].send;
      members_[r].stages = stages_by_hosts(call, layout, groups, rank_of(r));
      members_[r].ended.resize(members_[r].stages.size());
    }
  }

  /// Carries out the stages of the call, in an order drawn from the seed, until no stage can start.
  /// Each stage is a call on a communicator of one host, or of ranks of different hosts.
  void run(std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::vector<std::uint32_t>> sides;
    for (std::uint32_t h = 0; h < layout_.hosts; ++h)
      sides.push_back(numbers(layout_.ranks_of_host(h)));
    for (std::uint32_t p = 0; p < layout_.ranks_per_host; ++p) {
      sides.push_back(numbers(layout_.ranks_of_place(p)));
    }
    for (bool moved = true; moved;) {
      moved = false;
      std::vector<std::size_t> order(sides.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t side : order) {
        const auto kind = side < layout_.hosts ? HierarchySide::host : HierarchySide::across;
        moved |= carry_out(sides[side], kind);
      }
    }
  }

  std::size_t calls(HierarchySide side, Collective collective) const {
    std::size_t count = 0;
    for (const Member& member : members_) {
      count += static_cast<std::size_t>(
          std::count_if(member.stages.begin(), member.stages.end(), [&](const auto& stage) {
            return stage.side == side && stage.call.collective == collective;
          }));
    }
    return count;
  }

  void expect_over() const {
    for (std::size_t r = 0; r < members_.size(); ++r) {
      const auto& ended = members_[r].ended;
      EXPECT_TRUE(std::all_of(ended.begin(), ended.end(), [](bool one) { return one; }))
          << "rank " << r << " never completes";
    }
  }
  const Bytes& received(std::uint32_t rank) const { return members_[rank].receive; }

 private:
  struct Member {
    Bytes send;
    Bytes receive;
    std::vector<HierarchyStage> stages;
    std::vector<bool> ended;
  };

  static std::vector<std::uint32_t> numbers(const std::vector<Rank>& ranks) {
    std::vector<std::uint32_t> made;
    for (const Rank rank : ranks) made.push_back(index(rank));
    return made;
  }

  /// Index of the first stage of `member` on `side` that has not ended. kNone if all have ended, or
  /// if that stage must wait for another stage.
  static std::size_t next(const Member& member, HierarchySide side) {
    for (std::size_t i = 0; i < member.stages.size(); ++i) {
      const HierarchyStage& stage = member.stages[i];
      if (stage.side != side || member.ended[i]) continue;
      const bool ready = stage.after == HierarchyStage::kNone || member.ended[stage.after];
      return ready ? i : HierarchyStage::kNone;
    }
    return HierarchyStage::kNone;
  }

  /// Carries out one stage at all of `ranks`; false if one of these ranks has not reached the stage
  /// yet.
  bool carry_out(const std::vector<std::uint32_t>& ranks, HierarchySide side) {
    std::vector<const HierarchyStage*> stages;
    std::vector<std::size_t> at;
    for (const std::uint32_t r : ranks) {
      at.push_back(next(members_[r], side));
      if (at.back() == HierarchyStage::kNone) return false;
      stages.push_back(&members_[r].stages[at.back()]);
    }
    const CollectiveCall& first = stages[0]->call;
    for (const HierarchyStage* stage : stages) {
      EXPECT_EQ(stage->call.collective, first.collective);
      EXPECT_EQ(stage->call.root, first.root);
      EXPECT_EQ(stage->sizes, stages[0]->sizes);
    }
    move(stages);
    for (std::size_t i = 0; i < ranks.size(); ++i) members_[ranks[i]].ended[at[i]] = true;
    return true;
  }

  static void put(std::span<const std::byte> block, std::span<std::byte> receive,
                  std::size_t offset) {
    ASSERT_LE(offset + block.size(), receive.size());
    if (!block.empty()) std::memmove(receive.data() + offset, block.data(), block.size());
  }

  static void move(const std::vector<const HierarchyStage*>& stages) {
    const CollectiveCall& first = stages[0]->call;
    for (std::size_t to = 0; to < stages.size(); ++to) {
      const CollectiveCall& call = stages[to]->call;
      if (first.collective == Collective::barrier) continue;
      if (first.collective == Collective::broadcast) {
        put(stages[index(first.root)]->call.receive, call.receive, 0);
        continue;
      }
      if (first.collective == Collective::gather && to != index(first.root)) continue;
      for (std::size_t from = 0; from < stages.size(); ++from) {
        const std::span<const std::byte> block = stages[from]->call.send;
        const bool varying = first.collective == Collective::allgatherv;
        EXPECT_TRUE(!varying || block.size() == stages[to]->sizes[from]);
        put(block, call.receive, varying ? stages[to]->offsets[from] : from * block.size());
      }
    }
  }

  HostLayout layout_;
  std::vector<Member> members_;
};

// Block sizes in bytes: below, at and above 256 KiB, the length of a long segment.
constexpr std::size_t kSizes[] = {0, 1, 5000, 256 * 1024, 300'001};

struct Shape {
  HostLayout layout;
  bool groups = false;
};

class HierarchyPlan : public testing::TestWithParam<Shape> {};

TEST_P(HierarchyPlan, AllgatherDeliversEveryBlockToEveryRank) {
  const auto [layout, groups] = GetParam();
  for (const std::size_t block : kSizes) {
    Bytes expected;
    for (std::uint32_t r = 0; r < layout.ranks(); ++r) {
      const Bytes one = bytes_of_rank(r, block);
      expected.insert(expected.end(), one.begin(), one.end());
    }
    for (std::uint32_t seed = 0; seed < 3; ++seed) {
      Job job(layout, groups, Collective::allgather, block, 0);
      job.run(seed);
      job.expect_over();
      for (std::uint32_t r = 0; r < layout.ranks(); ++r) {
        EXPECT_TRUE(job.received(r) == expected) << block << " bytes, rank " << r;
      }
    }
  }
}

TEST_P(HierarchyPlan, BroadcastDeliversTheRootsBytesToEveryRank) {
  const auto [layout, groups] = GetParam();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{256 * 1024}, std::size_t{700'001}}) {
    for (std::uint32_t root = 0; root < layout.ranks(); ++root) {
      Job job(layout, groups, Collective::broadcast, bytes, root);
      job.run(root);
      job.expect_over();
      for (std::uint32_t r = 0; r < layout.ranks(); ++r) {
        EXPECT_TRUE(job.received(r) == bytes_of_rank(root, bytes)) << "root " << root;
      }
    }
  }
}

TEST_P(HierarchyPlan, Barrier_completesAtEveryRank) {
  const auto [layout, groups] = GetParam();
  Job job(layout, groups, Collective::barrier, 0, 0);
  job.run(7);
  job.expect_over();
  EXPECT_EQ(job.calls(HierarchySide::host, Collective::barrier), 2u * layout.ranks());
  EXPECT_EQ(job.calls(HierarchySide::across, Collective::barrier), layout.hosts);
}

INSTANTIATE_TEST_SUITE_P(Layouts, HierarchyPlan,
                         testing::Values(Shape{{2, 2}, false}, Shape{{2, 4}, false},
                                         Shape{{3, 3}, false}, Shape{{4, 2}, false},
                                         Shape{{2, 2}, true}, Shape{{2, 4}, true},
                                         Shape{{3, 3}, true}, Shape{{4, 2}, true}),
                         [](const auto& one) {
                           return fmt::format("{}x{}{}", one.param.layout.hosts,
                                              one.param.layout.ranks_per_host,
                                              one.param.groups ? "Groups" : "");
                         });

TEST(HierarchyPlanWays, LongBlocks_areSentByOneLeaderPerHost_butByEveryRankIfGroupsAreEnabled) {
  const HostLayout layout{2, 4};
  // Each segment is one call between hosts. The four blocks of a host, which its leader sends end
  // to end, fill ten segments; the block of a single rank fills three.
  constexpr std::size_t kBlock = 600'000;
  const Job by_leaders(layout, false, Collective::allgather, kBlock, 0);
  EXPECT_EQ(by_leaders.calls(HierarchySide::across, Collective::allgatherv), 2u * 10);
  EXPECT_EQ(by_leaders.calls(HierarchySide::host, Collective::gather), 8u);
  const Job by_groups(layout, true, Collective::allgather, kBlock, 0);
  EXPECT_EQ(by_groups.calls(HierarchySide::across, Collective::allgatherv), 8u * 3);
  EXPECT_EQ(by_groups.calls(HierarchySide::host, Collective::gather), 0u);
  const Job is_short(layout, true, Collective::allgather, 1000, 0);
  EXPECT_EQ(is_short.calls(HierarchySide::across, Collective::allgather), 2u);
}

TEST(HierarchyPlanWays, Broadcast_above256KiB_isCutIntoLongerSegments) {
  const auto shared = [](std::size_t bytes) {
    const Job job({2, 4}, false, Collective::broadcast, bytes, 0);
    return job.calls(HierarchySide::host, Collective::broadcast) / 8;
  };
  constexpr std::size_t k64 = 64 * 1024;
  EXPECT_EQ(shared(k64), 1u);
  EXPECT_EQ(shared(k64 + 1), 2u);
  EXPECT_EQ(shared(4 * k64), 4u);
  EXPECT_EQ(shared(4 * k64 + 1), 2u);
  EXPECT_EQ(shared(16 * 4 * k64), 16u);
  EXPECT_EQ(shared(16 * 4 * k64 + 1), 9u);
}

TEST(HierarchyPlanWays, HostsOfTwoRanks_useNoHierarchyForLongCalls) {
  const Bytes some(64);
  Bytes buffer(2 * 1024 * 1024 + 1);
  CollectiveCall call{.collective = Collective::broadcast, .send = some, .receive = buffer};
  EXPECT_FALSE(better_by_hosts(call, {4, 2}));
  EXPECT_TRUE(better_by_hosts(call, {4, 3}));
  // A host of four ranks that is divided into parts of two ranks still counts as a host of four.
  // Long calls therefore use the hierarchy.
  EXPECT_TRUE(better_by_hosts(call, HostLayout{4, 4}.divided(2)));
  call.receive = std::span(buffer).first(buffer.size() - 1);
  EXPECT_TRUE(better_by_hosts(call, {4, 2}));
}

TEST(HierarchyPlanWays, BarrierWithALeftoverBuffer_usesTheHierarchy_asTheOtherRanksDo) {
  Bytes buffer(2 * 1024 * 1024 + 1);
  EXPECT_TRUE(better_by_hosts({.collective = Collective::barrier, .receive = buffer}, {4, 2}));
}

}  // namespace
}  // namespace tutti::hierarchy
