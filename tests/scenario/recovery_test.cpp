// Tests reliable multicast over a network that loses, duplicates, reorders and corrupts chunks: all
// data must arrive by the expected path, and recovery must move little more than was lost.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "job.hpp"

namespace tutti::scenario {
namespace {

constexpr std::uint32_t kChunk = 1024;
// Epoch of the first tested collective. The epoch before it belongs to the barrier that confirms
// membership.
constexpr std::uint32_t kFirstEpoch = 2;

/// Block of six chunks, of which the last is short.
constexpr std::size_t kBlock = 5 * kChunk + 100;
constexpr std::uint32_t kBlockChunks = 6;

/// Expects that all chunks arrived, that each was counted once, and that recovery moved at most 1.5
/// times the lost bytes, not counting late chunks.
void expect_recovered(const Outcome& outcome, std::uint64_t chunks_to_receive) {
  EXPECT_EQ(outcome.of("chunks_received") + outcome.of("chunks_fetched"), chunks_to_receive)
      << outcome.describe();
  if (outcome.lost_bytes() > 0) {
    EXPECT_LE(2 * outcome.recovered_bytes(), 3 * outcome.lost_bytes()) << outcome.describe();
  } else {
    EXPECT_LE(outcome.moved_bytes(), outcome.given_up_bytes()) << outcome.describe();
  }
  EXPECT_LE(outcome.of("tail_probes"), outcome.most_tails()) << outcome.describe();
  EXPECT_EQ(outcome.of("collectives_failed"), 0u);
  EXPECT_EQ(outcome.of("messages_rejected"), 0u) << outcome.describe();
  EXPECT_EQ(outcome.of("chunks_malformed"), 0u);
  EXPECT_EQ(outcome.of("device_kernel_drops"), 0u)
      << "the kernel dropped datagrams on this machine";
}

void expect_nothing_recovered(const Outcome& outcome) {
  // If the machine pauses a sender longer than the cutoff, other ranks may fetch its chunks or
  // request them again. given_up_bytes() bounds the bytes of these chunks and is 0 without a pause.
  EXPECT_LE(outcome.of("chunks_lost") * outcome.chunk_bytes, outcome.given_up_bytes())
      << outcome.describe();
  EXPECT_LE(outcome.of("bytes_fetched"), outcome.given_up_bytes()) << outcome.describe();
  EXPECT_GE(outcome.of("chunks_retransmitted"), outcome.of("tail_probes"));
  EXPECT_LE((outcome.of("chunks_retransmitted") - outcome.of("tail_probes")) * outcome.chunk_bytes,
            outcome.given_up_bytes())
      << outcome.describe();
}

/// Runs `count` Allgathers on each rank.
Outcome allgathers(const JobSpec& spec, std::size_t block_bytes, std::uint32_t count) {
  return run_job(spec, [&](Member& member) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!member.allgather(block_bytes, i)) return;
    }
  });
}

/// Sum over all ranks of the chunks that a rank receives in one Allgather.
std::uint64_t received_by_all(std::uint32_t size, std::size_t block_bytes) {
  return std::uint64_t{size} * (size - 1) * ((block_bytes + kChunk - 1) / kChunk);
}

JobSpec job(std::uint32_t size, const std::string& faults) {
  return {.size = size, .faults = faults, .options = small_chunks()};
}

TEST(Recovery, JobWithoutLoss_causesNoRecovery) {
  for (const std::uint32_t size : {2u, 3u, 5u}) {
    const Outcome outcome = allgathers(job(size, ""), 30 * kChunk, 20);
    expect_recovered(outcome, 20 * received_by_all(size, 30 * kChunk));
    expect_nothing_recovered(outcome);
  }
}

/// Fault rules for successive collectives: the n-th call of add() sets the rule of the n-th
/// collective.
struct Cases {
  std::string faults;
  std::uint32_t count = 0;

  void add(const std::string& rule) {
    faults += fmt::format("{} epoch={} occurrences=1\n", rule, kFirstEpoch + count);
    ++count;
  }
};

Cases each_chunk_at_each_receiver(std::uint32_t size) {
  Cases cases;
  for (std::uint32_t psn = 0; psn < size * kBlockChunks; ++psn) {
    for (std::uint32_t r = 0; r < size; ++r) {
      if (psn / kBlockChunks == r) continue;
      cases.add(fmt::format("drop receiver chunk psn={} ranks={}", psn, r));
    }
  }
  return cases;
}

class EachChunk : public testing::TestWithParam<std::uint32_t> {};

TEST_P(EachChunk, ChunkLostAtOneReceiverIsFetchedOnce) {
  const Cases cases = each_chunk_at_each_receiver(3);
  JobSpec spec = job(3, cases.faults);
  spec.options.chains = GetParam();
  const Outcome outcome = allgathers(spec, kBlock, cases.count);
  expect_recovered(outcome, cases.count * received_by_all(3, kBlock));
  EXPECT_EQ(outcome.injected.chunks_dropped_at_receiver, cases.count);
  // A tail probe may deliver the last chunk of a block before the chunk is requested.
  EXPECT_LE(outcome.of("chunks_fetched"), cases.count + outcome.late_chunks());
  EXPECT_GE(outcome.of("chunks_fetched") + outcome.of("tail_probes"), cases.count);
  EXPECT_GE(outcome.of("chunks_fetched"), cases.count * (kBlockChunks - 1) / kBlockChunks);
  EXPECT_LE(outcome.of("bytes_fetched"), outcome.lost_bytes() + outcome.late_chunks() * kChunk);
}

TEST_P(EachChunk, ChunkLostAtEveryReceiverIsRetransmittedByItsRoot) {
  Cases cases;
  for (std::uint32_t psn = 0; psn < 4 * kBlockChunks; ++psn) {
    cases.add(fmt::format("drop sender chunk psn={}", psn));
  }
  JobSpec spec = job(4, cases.faults);
  spec.options.chains = GetParam();
  const Outcome outcome = allgathers(spec, kBlock, cases.count);
  expect_recovered(outcome, cases.count * received_by_all(4, kBlock));
  EXPECT_EQ(outcome.injected.chunks_dropped_at_sender, cases.count);
  EXPECT_GT(outcome.of("retransmit_requests_sent"), 0u);
  EXPECT_GT(outcome.of("chunks_retransmitted"), outcome.of("tail_probes")) << outcome.describe();
}

INSTANTIATE_TEST_SUITE_P(Chains, EachChunk, testing::Values(1u, 2u, 4u),
                         [](const auto& one) { return fmt::format("{}", one.param); });

/// Tests Allgatherv with ranks that have an empty block. Such a rank activates the next sender at
/// once, and losses in earlier blocks are still found.
class SomeEmpty : public testing::TestWithParam<std::tuple<std::uint32_t, std::uint32_t>> {};

TEST_P(SomeEmpty, LossInBlocksOfAnySize_isRecovered) {
  const std::vector<std::vector<std::uint64_t>> shapes = {{0, kBlock, 0, 0, 2 * kChunk},
                                                          {kBlock, 0, 0, 0, 0},
                                                          {1, 0, 3 * kChunk, 0, 0},
                                                          {0, 0, 0, 0, kBlock}};
  Cases cases;
  std::vector<std::vector<std::uint64_t>> calls;
  std::uint64_t expected = 0;
  for (const auto& sizes : shapes) {
    std::uint32_t chunks = 0;
    for (const std::uint64_t bytes : sizes) {
      chunks += static_cast<std::uint32_t>((bytes + kChunk - 1) / kChunk);
    }
    for (std::uint32_t psn = 0; psn < chunks; ++psn) {
      for (const char* where : {"receiver", "sender"}) {
        cases.add(fmt::format("drop {} chunk psn={}", where, psn));
        calls.push_back(sizes);
        expected += std::uint64_t{chunks} * 4;
      }
    }
  }
  JobSpec spec = job(5, cases.faults);
  std::tie(spec.options.chains, spec.options.receive_workers) = GetParam();
  if (spec.options.receive_workers > 0) spec.options.subgroups = spec.options.receive_workers;
  const Outcome outcome = run_job(spec, [&](Member& member) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!member.allgatherv(calls[i], i)) return;
    }
  });
  expect_recovered(outcome, expected);
  EXPECT_GE(outcome.injected.chunks_dropped_at_sender, cases.count / 2);
}

INSTANTIATE_TEST_SUITE_P(Recovery, SomeEmpty,
                         testing::Combine(testing::Values(1u, 2u, 5u), testing::Values(0u, 2u)),
                         [](const auto& one) {
                           return fmt::format("Chains{}Workers{}", std::get<0>(one.param),
                                              std::get<1>(one.param));
                         });

struct Named {
  const char* name;
  const char* faults;
};

class Burst : public testing::TestWithParam<Named> {};

TEST_P(Burst, BurstOfLostChunks_isRecovered) {
  const JobSpec spec = job(3, GetParam().faults);
  const Outcome outcome = allgathers(spec, 20 * kChunk, 3);
  expect_recovered(outcome, 3 * received_by_all(3, 20 * kChunk));
  EXPECT_GT(outcome.lost_bytes(), 0u);
}

// The blocks have PSNs 0-19, 20-39 and 40-59.
INSTANTIATE_TEST_SUITE_P(
    Recovery, Burst,
    testing::Values(
        Named{"TwoNeighbours", "drop receiver chunk psn=7-8 ranks=1 occurrences=1"},
        Named{"SevenInARowAtOne", "drop receiver chunk psn=23-29 ranks=0 occurrences=1"},
        Named{"SevenInARowAtAll", "drop sender chunk psn=23-29 occurrences=1"},
        Named{"FirstChunkOfAll", "drop receiver chunk psn=0 occurrences=1"},
        Named{"LastChunkOfAll", "drop receiver chunk psn=59 occurrences=1"},
        Named{"LastChunkOfEveryBlock",
              "drop sender chunk psn=19 occurrences=1; drop sender chunk psn=39 occurrences=1;"
              "drop sender chunk psn=59 occurrences=1"},
        Named{"FirstHalfOfABlock", "drop sender chunk psn=20-29 occurrences=1"},
        Named{"TailOfABlock", "drop sender chunk psn=30-39 occurrences=1"},
        Named{"TailOfTheLastBlock", "drop sender chunk psn=50-59 occurrences=1"},
        Named{"AcrossTwoBlocks", "drop receiver chunk psn=15-24 occurrences=1"},
        Named{"AWholeBlockAtOne", "drop receiver chunk psn=20-39 ranks=0 occurrences=1"},
        Named{"AWholeBlockAtAll", "drop sender chunk psn=20-39 occurrences=1"},
        Named{"TheLastBlockAtAll", "drop sender chunk psn=40-59 occurrences=1"},
        Named{"TheRepeatsToo", "drop sender chunk psn=20-39 occurrences=3"},
        Named{"SomethingOfEveryBlockAtEveryRank",
              "drop receiver chunk psn=3-4 occurrences=1; drop receiver chunk psn=27-30 "
              "occurrences=1;"
              "drop receiver chunk psn=44 occurrences=1"},
        Named{"EverythingAtEveryRank", "drop receiver chunk occurrences=1"},
        Named{"EverythingBeforeTheNetwork", "drop sender chunk occurrences=1"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(Recovery, ChunksWhoseMulticastsAreAllLost_areReadFromRankToRank) {
  // Every multicast of these chunks is lost, including retransmissions, so the chunks can arrive
  // only by READs.
  const Outcome outcome = allgathers(job(4, "drop sender chunk psn=1-3 source=0"), 5 * kChunk, 2);
  expect_recovered(outcome, 2 * received_by_all(4, 5 * kChunk));
  EXPECT_GE(outcome.of("chunks_fetched"), 2u * 3 * 3);
  EXPECT_LE(outcome.of("chunks_fetched"), 2u * 3 * 3 + outcome.late_chunks());
}

class Rate : public testing::TestWithParam<std::string> {};

TEST_P(Rate, ChunksLostAtTheGivenRate_areRecovered) {
  const std::string faults = "seed=11; drop " + GetParam();
  for (const std::uint32_t size : {3u, 5u}) {
    const std::size_t block = 200 * kChunk + 17;
    const Outcome outcome = allgathers(job(size, faults), block, 4);
    SCOPED_TRACE(faults);
    expect_recovered(outcome, 4 * received_by_all(size, block));
    EXPECT_GT(outcome.lost_bytes(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Recovery, Rate,
                         testing::Values("receiver chunk rate=0.1%", "receiver chunk rate=1%",
                                         "receiver chunk rate=10%", "sender chunk rate=0.1%",
                                         "sender chunk rate=1%", "sender chunk rate=10%",
                                         "receiver chunk rate=5%; drop sender chunk rate=5%"),
                         [](const auto& one) {
                           std::string name;
                           for (const char letter : one.param) {
                             if (std::isalnum(static_cast<unsigned char>(letter)) != 0)
                               name += letter;
                           }
                           return name;
                         });

TEST(Recovery, LossIsRecovered_forSeveralNumbersOfSubgroupsAndChains) {
  for (const std::uint32_t subgroups : {2u, 3u}) {
    for (const std::uint32_t chains : {0u, 2u}) {
      JobSpec spec = job(4, "drop receiver chunk rate=3%; drop sender chunk rate=1%");
      spec.options.subgroups = subgroups;
      spec.options.chains = chains;
      const std::size_t block = 300 * kChunk;
      const Outcome outcome = allgathers(spec, block, 3);
      SCOPED_TRACE(fmt::format("{} subgroups, {} chains", subgroups, chains));
      expect_recovered(outcome, 3 * received_by_all(4, block));
    }
  }
}

TEST(Recovery, LossIsRecoveredInBroadcastsFromEveryRoot) {
  constexpr std::size_t kBytes = 200 * kChunk;
  const JobSpec spec = job(4, "drop receiver chunk rate=5%; drop sender chunk rate=2%");
  const Outcome outcome = run_job(spec, [&](Member& member) {
    for (std::uint32_t root = 0; root < 4; ++root) {
      if (!member.broadcast(kBytes, root, root)) return;
    }
  });
  expect_recovered(outcome, 4 * 3 * 200);
}

TEST(Recovery, LossWhileSendersNeedCredits_isRecovered) {
  JobSpec spec = job(4, "drop receiver chunk rate=2%; drop sender chunk rate=1%");
  spec.options.window_bytes = 16 * kChunk;  // a sender fills this credit window in a single poll
  const std::size_t block = 300 * kChunk;
  const Outcome outcome = allgathers(spec, block, 2);
  expect_recovered(outcome, 2 * received_by_all(4, block));
  EXPECT_GT(outcome.of("credit_stalls"), 0u);
}

TEST(Disorder, DuplicatedChunks_areCounted_andChangeNoData) {
  for (const char* place : {"sender", "receiver"}) {
    const Outcome outcome =
        allgathers(job(3, fmt::format("duplicate {} chunk rate=20%", place)), 100 * kChunk, 3);
    expect_recovered(outcome, 3 * received_by_all(3, 100 * kChunk));
    expect_nothing_recovered(outcome);
    EXPECT_GT(outcome.injected.chunks_duplicated, 0u);
    EXPECT_GT(outcome.of("chunks_duplicate"), 0u);
  }
}

TEST(Disorder, ReorderedChunks_causeNoRecovery) {
  const Outcome outcome =
      allgathers(job(3, "reorder receiver chunk rate=20% distance=5 by=300us"), 100 * kChunk, 3);
  expect_recovered(outcome, 3 * received_by_all(3, 100 * kChunk));
  expect_nothing_recovered(outcome);
  EXPECT_GT(outcome.injected.chunks_reordered, 0u);
  EXPECT_GT(outcome.of("chunks_out_of_order"), 0u);
}

TEST(Disorder, LateChunk_isCountedOnce_asReceivedOrAsFetched) {
  const Outcome outcome =
      allgathers(job(3, "delay receiver chunk rate=2% by=20ms"), 100 * kChunk, 3);
  EXPECT_EQ(outcome.of("chunks_received") + outcome.of("chunks_fetched"),
            3 * received_by_all(3, 100 * kChunk));
  EXPECT_GT(outcome.injected.chunks_delayed, 0u);
  EXPECT_GT(outcome.of("chunks_fetched"), 0u);
  EXPECT_LE(outcome.of("chunks_fetched"), outcome.injected.chunks_delayed + outcome.late_chunks());
}

class Corruption : public testing::TestWithParam<bool> {};

TEST_P(Corruption, CorruptedChunksAreRejectedAndFetched) {
  JobSpec spec = job(3, "corrupt receiver chunk rate=5%");
  spec.options.authenticate = GetParam();
  const char* const word = GetParam() ? "a keyed tag" : "a CRC-32C";
  const Outcome outcome = run_job(spec, [word](Member& member) {
    const std::string said = member.communicator().describe();
    EXPECT_NE(said.find(word), std::string::npos) << said;
    for (std::uint32_t i = 0; i < 3; ++i) {
      if (!member.allgather(200 * kChunk, i)) return;
    }
  });
  expect_recovered(outcome, 3 * received_by_all(3, 200 * kChunk));
  EXPECT_GT(outcome.injected.chunks_corrupted, 0u);
  // A corrupted copy of a chunk that is already present is dropped before its tag is checked.
  EXPECT_LE(outcome.of("device_rejected_integrity"), outcome.injected.chunks_corrupted);
  EXPECT_GE(outcome.of("device_rejected_integrity") + outcome.of("chunks_duplicate"),
            outcome.injected.chunks_corrupted);
  EXPECT_EQ(outcome.of("chunks_damaged"), outcome.of("device_rejected_integrity"));
}

INSTANTIATE_TEST_SUITE_P(Recovery, Corruption, testing::Bool(),
                         [](const auto& one) { return one.param ? "KeyedTag" : "Crc"; });

class FrameLoss : public testing::TestWithParam<int> {};

TEST_P(FrameLoss, LostFramesOfConnections_doNotRaiseTheCostOfChunkRecovery) {
  JobSpec spec =
      job(3, fmt::format("seed=5; drop sender reliable rate={}%; duplicate sender reliable "
                         "rate=5%; drop receiver chunk rate=2%",
                         GetParam()));
  spec.options.always_barrier = true;
  const Outcome outcome = allgathers(spec, 50 * kChunk, 10);
  // Lost frames may cause more tail probes, but must not increase the bytes that recovery moves.
  expect_recovered(outcome, 10 * received_by_all(3, 50 * kChunk));
  EXPECT_GT(outcome.injected.frames_dropped, 0u);
  EXPECT_GT(outcome.of("device_reliable_frames_resent"), 0u);
  EXPECT_GT(outcome.of("device_reliable_frames_duplicate"), 0u);
  // If only 1 % of the frames get lost, a run may need no tail probe.
  if (GetParam() >= 10) {
    EXPECT_GT(outcome.of("device_reliable_tail_probes"), 0u);
  }
  EXPECT_GE(outcome.of("ready_by_barrier"), 30u);
}

INSTANTIATE_TEST_SUITE_P(Percent, FrameLoss, testing::Values(1, 10, 30),
                         [](const auto& one) { return fmt::format("{}", one.param); });

TEST(Closing, CallsOfOtherRanks_afterARankHasLeft_completeDespiteLostFrames) {
  for (int seed = 0; seed < 4; ++seed) {
    JobSpec spec = job(3, fmt::format("seed={}; drop sender reliable rate=20%", seed));
    spec.close_together = false;
    spec.options.peer_timeout = std::chrono::seconds(5);
    const Outcome outcome = allgathers(spec, 10 * kChunk, 2);
    EXPECT_EQ(outcome.of("collectives_failed"), 0u) << "seed " << seed;
    EXPECT_EQ(outcome.of("collectives_completed"), 9u) << "seed " << seed;
  }
}

TEST(Membership, LostProbes_doNotPreventTheConfirmationOfMembership) {
  const Outcome outcome = allgathers(
      job(4, "drop sender probe rate=50%; drop receiver probe occurrences=2"), 10 * kChunk, 1);
  expect_recovered(outcome, received_by_all(4, 10 * kChunk));
  EXPECT_GT(outcome.injected.probes_dropped, 4u);
}

TEST(Epochs, ChunksOfFinishedCollectivesAreDropped) {
  const Outcome outcome =
      allgathers(job(3, "duplicate receiver chunk rate=30% by=15ms"), 20 * kChunk, 30);
  EXPECT_EQ(outcome.of("chunks_received") + outcome.of("chunks_fetched"),
            30 * received_by_all(3, 20 * kChunk));
  EXPECT_GT(outcome.of("chunks_stale"), 0u) << outcome.describe();
}

TEST(Epochs, CollectivesCompleteWhileEpochsWrap) {
  JobSpec spec = job(3, "drop receiver chunk rate=3%; duplicate receiver chunk rate=10% by=2ms");
  spec.first_epoch = 0xffff'fff0u;
  const Outcome outcome = allgathers(spec, 20 * kChunk, 40);
  EXPECT_EQ(outcome.of("chunks_received") + outcome.of("chunks_fetched"),
            40 * received_by_all(3, 20 * kChunk))
      << outcome.describe();
  EXPECT_EQ(outcome.of("collectives_completed"), 3u * 41);
  EXPECT_GT(outcome.of("chunks_stale"), 0u);
}

}  // namespace
}  // namespace tutti::scenario
