// Tests the cost of schedules: queue pairs and rounds as in [Inozemtsev12], bytes and messages.
#include "schedule/resources.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "collectives/arithmetic.hpp"
#include "purposes.hpp"
#include "schedule/validate/validate.hpp"

namespace tutti::schedule {
namespace {

using collectives::build_all;
using collectives::ceil_log;
using collectives::is_power_of;

constexpr std::uint64_t kBlock = 1000;

Purpose allgather(const char* algorithm, std::uint32_t ranks, std::uint32_t ports = 1) {
  Purpose purpose{Collective::allgather, algorithm, ranks, {}, {}, {}};
  purpose.parameters.ports = ports;
  return purpose;
}

RankUse use_of(const Purpose& purpose, std::uint32_t rank = 0) {
  Purpose one = purpose;
  one.rank = rank_of(rank);
  const Result<Schedule> schedule = collectives::build(one);
  EXPECT_TRUE(schedule.ok()) << schedule.status().to_string();
  const Result<RankUse> use = measure(*schedule, Shape::uniform(kBlock));
  EXPECT_TRUE(use.ok()) << use.status().to_string();
  return *use;
}

Validation validated(const Purpose& purpose) {
  const Result<std::vector<Schedule>> schedules = build_all(purpose);
  EXPECT_TRUE(schedules.ok()) << schedules.status().to_string();
  const Validation validation = validate(*schedules);
  EXPECT_TRUE(validation.ok()) << validation.status().message();
  return validation;
}

/// Returns the number of rounds. Checks that no chain of dependent messages has more messages than
/// there are rounds.
std::uint32_t rounds_of(const Purpose& purpose) {
  const Validation validation = validated(purpose);
  EXPECT_LE(validation.longest_chain, validation.rounds);
  return validation.rounds;
}

TEST(QueuePairs, CountsForTheClusterOfThePaper_equalThePublishedCounts) {
  // Queue pairs for 128 ranks by [Inozemtsev12]: "Bruck 2 x 3 log2 128 = 42, Standard Exchange 3
  // log2 128 = 21, Ring 2 x 3 = 6".
  EXPECT_EQ(use_of(allgather("bruck", 128)).queue_pairs, 42u);
  EXPECT_EQ(use_of(allgather("standard_exchange", 128)).queue_pairs, 21u);
  EXPECT_EQ(use_of(allgather("ring", 128)).queue_pairs, 6u);
  // Queue pairs for 16 leaders by [Inozemtsev12]: "3 log2 16 = 12 per node for Standard Exchange, 6
  // for Ring and 24 for Bruck".
  EXPECT_EQ(use_of(allgather("standard_exchange", 16)).queue_pairs, 12u);
  EXPECT_EQ(use_of(allgather("ring", 16)).queue_pairs, 6u);
  EXPECT_EQ(use_of(allgather("bruck", 16)).queue_pairs, 24u);
}

TEST(QueuePairs, CountsFollowTheFormulasAtEveryRank) {
  for (std::uint32_t ranks = 4; ranks <= 64; ranks *= 2) {
    const std::uint32_t rounds = ceil_log(ranks, 2);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      EXPECT_EQ(use_of(allgather("standard_exchange", ranks), r).queue_pairs, 3 * rounds);
      EXPECT_EQ(use_of(allgather("bruck", ranks), r).queue_pairs, 6 * rounds);
      EXPECT_EQ(use_of(allgather("ring", ranks), r).queue_pairs, 6u);
    }
  }
  // In the round with distance P/2 of Bruck's algorithm, a rank sends to and receives from the same
  // rank. Two connections of the rank therefore lead to one peer.
  EXPECT_EQ(use_of(allgather("bruck", 16)).peers, 7u);
  EXPECT_EQ(use_of(allgather("bruck", 16)).connections, 8u);
}

TEST(Rounds, NumberOfRounds_equalsThatOfThePaper_forAnyNumberOfRanksAndPorts) {
  for (std::uint32_t ranks = 2; ranks <= 64; ++ranks) {
    EXPECT_EQ(rounds_of(allgather("ring", ranks)), ranks - 1);
    EXPECT_EQ(rounds_of(allgather("linear", ranks)), 1u);
    for (std::uint32_t ports = 1; ports <= 4; ++ports) {
      const std::uint32_t rounds = ceil_log(ranks, ports + 1);
      EXPECT_EQ(rounds_of(allgather("bruck", ranks, ports)), rounds) << ranks << " " << ports;
      if (!is_power_of(ranks, ports + 1)) continue;
      EXPECT_EQ(rounds_of(allgather("standard_exchange", ranks, ports)), rounds);
    }
    if (ranks % 2 == 0) {
      EXPECT_EQ(rounds_of(allgather("neighbour_exchange", ranks)), ranks / 2);
    }
  }
}

TEST(Rounds, TreesAndBarriersTakeTheExpectedRounds) {
  for (std::uint32_t ranks : {2u, 5u, 8u, 33u, 64u}) {
    const std::uint32_t log = ceil_log(ranks, 2);
    EXPECT_EQ(rounds_of({Collective::barrier, "dissemination", ranks, {}, {}, {}}), log);
    EXPECT_EQ(rounds_of({Collective::broadcast, "binomial", ranks, {}, {}, {}}), log);
    EXPECT_EQ(rounds_of({Collective::gather, "binomial", ranks, {}, {}, {}}), log);
    EXPECT_EQ(rounds_of({Collective::alltoall, "bruck", ranks, {}, {}, {}}), log);
    EXPECT_EQ(rounds_of({Collective::broadcast, "multicast", ranks, {}, {}, {}}), 1u);
    EXPECT_EQ(rounds_of({Collective::allreduce, "ring", ranks, {}, {}, {}}), 2 * (ranks - 1));
    // If the number of ranks is no power of two, the surplus ranks send to a partner in an extra
    // first round, and receive from it in an extra last round.
    const std::uint32_t power = std::bit_floor(ranks);
    const std::uint32_t folds = power < ranks ? 2 : 0;
    const std::uint32_t low = ceil_log(power, 2);
    EXPECT_EQ(rounds_of({Collective::barrier, "recursive_doubling", ranks, {}, {}, {}}),
              low + folds);
    EXPECT_EQ(rounds_of({Collective::allreduce, "recursive_doubling", ranks, {}, {}, {}}),
              low + folds);
    EXPECT_EQ(rounds_of({Collective::reduce_scatter, "halving", ranks, {}, {}, {}}), low + folds);
    for (const Collective collective : {Collective::allreduce, Collective::reduce}) {
      EXPECT_EQ(rounds_of({collective, "rabenseifner", ranks, {}, {}, {}}), 2 * low + folds);
    }
  }
  // A pipeline of P ranks passes S segments on in P - 2 + S rounds. Segments do not depend on each
  // other, so at most P - 1 messages depend on one another.
  Purpose chain{Collective::broadcast, "chain", 6, {}, {}, {}};
  chain.parameters.segments = 10;
  EXPECT_EQ(validated(chain).rounds, 14u);
  EXPECT_EQ(validated(chain).longest_chain, 5u);
}

// In these algorithms every round forwards data of the round before, so the longest chain of
// dependent messages has one message per round.
TEST(Rounds, LongestMessageChain_ifTheRankCountIsAPowerOfTwo_hasOneMessagePerRound) {
  for (std::uint32_t ranks = 2; ranks <= 64; ranks *= 2) {
    for (const char* algorithm : {"ring", "bruck", "standard_exchange", "recursive_doubling"}) {
      const Validation validation = validated(allgather(algorithm, ranks));
      EXPECT_EQ(validation.longest_chain, validation.rounds) << algorithm << " " << ranks;
    }
  }
}

TEST(Bytes, RankOfAnAllgather_sendsAsMuchAsItReceives_orOneBlockByMulticast) {
  for (const char* algorithm : {"ring", "bruck", "standard_exchange", "linear",
                                "neighbour_exchange", "recursive_doubling"}) {
    const RankUse use = use_of(allgather(algorithm, 16), 5);
    EXPECT_EQ(use.bytes_received, 15 * kBlock) << algorithm;
    EXPECT_EQ(use.bytes_sent, 15 * kBlock) << algorithm;
  }
  // By multicast each block is sent once ([Khalilov24] 2.1).
  EXPECT_EQ(use_of(allgather("multicast", 16)).bytes_sent, kBlock);
  EXPECT_EQ(use_of(allgather("multicast", 16), 3).bytes_received, 15 * kBlock);
  EXPECT_EQ(use_of(allgather("bruck", 16)).scratch_bytes, 16 * kBlock);
}

// In a ring a rank sends to one peer only. In a linear Alltoall it sends the same number of bytes
// to every peer.
TEST(Bytes, BytesByDestination_ofRingAllgatherAndLinearAlltoall_areExact) {
  const auto to_each = [](const Purpose& purpose) {
    return *bytes_by_destination(*collectives::build(purpose), Shape::uniform(kBlock));
  };
  using Each = std::vector<std::uint64_t>;
  EXPECT_EQ(to_each({Collective::allgather, "ring", 4, rank_of(1), {}, {}}),
            Each({0, 0, 3 * kBlock, 0}));
  EXPECT_EQ(to_each({Collective::alltoall, "linear", 4, rank_of(1), {}, {}}),
            Each({kBlock, 0, kBlock, kBlock}));
}

TEST(Bytes, RingAndRabenseifnerAllreduce_sendTheFewestBytes) {
  constexpr std::uint64_t kWhole = 64 * 8;
  for (const char* algorithm : {"ring", "rabenseifner"}) {
    const Result<Schedule> schedule =
        collectives::build({Collective::allreduce, algorithm, 8, rank_of(3), {}, {}});
    const Result<RankUse> use = measure(*schedule, Shape::uniform(kWhole, 8));
    EXPECT_EQ(use->bytes_sent, 2 * kWhole * 7 / 8) << algorithm;
    EXPECT_EQ(use->bytes_received, 2 * kWhole * 7 / 8) << algorithm;
    EXPECT_EQ(use->bytes_reduced, kWhole * 7 / 8) << algorithm;
  }
}

// In the halving of Rabenseifner's Reduce, each rank sends and receives all parts but one. In the
// gather that follows, the root receives all parts but one, and each other rank sends one message.
TEST(Bytes, RabenseifnerReduce_sendsAndReceivesLessThanTwoBlocks) {
  constexpr std::uint64_t kWhole = 64 * 8;
  const auto use_of_rank = [](std::uint32_t rank) {
    const Result<Schedule> schedule =
        collectives::build({Collective::reduce, "rabenseifner", 8, rank_of(rank), rank_of(5), {}});
    return *measure(*schedule, Shape::uniform(kWhole, 8));
  };
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(use_of_rank(rank).bytes_reduced, kWhole * 7 / 8) << rank;
    EXPECT_LT(use_of_rank(rank).bytes_received, 2 * kWhole) << rank;
    EXPECT_LT(use_of_rank(rank).bytes_sent, 2 * kWhole) << rank;
  }
  EXPECT_EQ(use_of_rank(5).bytes_received, 2 * kWhole * 7 / 8);
  EXPECT_EQ(use_of_rank(5).bytes_sent, kWhole * 7 / 8);
}

TEST(Bytes, NonRootOfAScatterAllgatherBroadcast_receivesTheMessageOnce) {
  for (std::uint32_t r = 1; r < 8; ++r)
    EXPECT_EQ(use_of({Collective::broadcast, "scatter_allgather", 8, {}, {}, {}}, r).bytes_received,
              kBlock);
}

TEST(DoubleTree, NonRoot_sendsNoMoreBytesThanItReceives) {
  for (std::uint32_t ranks : {8u, 16u, 31u, 64u}) {
    for (std::uint32_t r = 1; r < ranks; ++r) {
      const RankUse use = use_of({Collective::broadcast, "double_tree", ranks, {}, {}, {}}, r);
      EXPECT_EQ(use.bytes_received, kBlock);
      EXPECT_LE(use.bytes_sent, kBlock) << "rank " << r << " of " << ranks;
    }
  }
}

// The validator proves which reductions keep the rank order.
TEST(RankOrder, OrderedReductionAlgorithms_keepTheRankOrder) {
  const auto ordered = [](Collective collective, const char* name, std::uint32_t ranks,
                          std::uint32_t root) {
    const auto schedules = build_all({collective, name, ranks, {}, rank_of(root), {}});
    return validate(*schedules).rank_ordered;
  };
  for (std::uint32_t ranks : {2u, 3u, 6u, 8u, 13u, 64u}) {
    EXPECT_TRUE(ordered(Collective::allreduce, "recursive_doubling", ranks, 0));
    EXPECT_TRUE(ordered(Collective::allreduce, "rabenseifner", ranks, 0));
    EXPECT_TRUE(ordered(Collective::reduce, "binomial", ranks, 0));
    EXPECT_TRUE(ordered(Collective::reduce, "binomial_ordered", ranks, ranks / 2));
    EXPECT_TRUE(ordered(Collective::reduce, "rabenseifner", ranks, ranks / 2));
    EXPECT_TRUE(ordered(Collective::reduce, "linear_keyed", ranks, ranks - 1));
    if (ranks < 3) continue;
    EXPECT_FALSE(ordered(Collective::allreduce, "ring", ranks, 0));
    EXPECT_FALSE(ordered(Collective::reduce, "binomial", ranks, ranks / 2));
  }
}

// All ranks of an Allreduce must end with the same bits, even if the operator rounds.
TEST(Association, AllRanksOfAnAllreduce_combineOperandsInTheSameOrder) {
  for (const auto& entry : collectives::algorithms_of(Collective::allreduce)) {
    for (std::uint32_t ranks : {2u, 3u, 7u, 16u, 64u}) {
      const auto schedules =
          build_all({Collective::allreduce, std::string(entry.name), ranks, {}, {}, {}});
      EXPECT_TRUE(validate(*schedules).same_association) << entry.name << " " << ranks;
    }
  }
}

}  // namespace
}  // namespace tutti::schedule
