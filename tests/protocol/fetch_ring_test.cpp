#include "protocol/fetch_ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "message_pump.hpp"

namespace tutti::protocol {
namespace {

/// One memory key for all blocks.
FetchRing::KeyOf key(std::uint64_t key) {
  return [key](std::uint32_t) { return key; };
}

using std::chrono::milliseconds;

constexpr std::uint32_t kChunkBytes = 10;
constexpr std::uint32_t kEpoch = 4;

BlockLayout gather(std::uint32_t ranks, std::uint32_t chunks) {
  BlockLayout layout(kChunkBytes, 1, std::uint64_t{chunks} * kChunkBytes);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    // The last chunk of each block is shorter than the others.
    const std::uint64_t bytes = std::uint64_t{chunks} * kChunkBytes - 3;
    EXPECT_TRUE(layout.add(rank_of(r), r * bytes, bytes));
  }
  return layout;
}

/// One rank with its chunk map and its fetch ring.
struct Node {
  Node(Rank me, std::uint32_t size, const BlockLayout& layout, const FetchRing::Settings& settings)
      : map(layout), ring(me, size, kEpoch, map, settings) {}

  ChunkMap map;
  FetchRing ring;
};

Message message(MessageKind kind, std::vector<Range> ranges, std::uint64_t argument = 0) {
  Message made;
  made.kind = kind;
  made.epoch = kEpoch;
  made.argument = argument;
  for (const Range range : ranges) EXPECT_TRUE(made.add(range));
  return made;
}

class FetchRingTest : public testing::Test {
 protected:
  /// Tests the fetch ring of rank 2 of 5 ranks. Each block has ten chunks, and rank 2 has only its
  /// own block.
  FetchRingTest() : layout_(gather(5, 10)), node_(rank_of(2), 5, layout_, {}) {
    node_.map.mark_run(2, {20, 30});
  }

  void poll(Instant now) { node_.ring.poll(now, outbox_); }
  std::vector<ReadOrder> answer(Rank from, const Message& answer) {
    std::vector<ReadOrder> reads;
    EXPECT_TRUE(node_.ring.on_answer(now_, from, answer, outbox_, reads));
    return reads;
  }
  void read(const ReadOrder& order) {
    node_.map.mark_run(order.block_index, order.psns);
    node_.ring.on_read_end(order, true,
                           layout_.bytes_of(layout_.blocks()[order.block_index], order.psns));
  }
  /// Takes the message from the outbox; the test fails unless there is exactly one.
  Outbox::Item sent() {
    EXPECT_EQ(outbox_.items().size(), 1u);
    const Outbox::Item item = outbox_.empty() ? Outbox::Item{} : outbox_.items()[0];
    outbox_.clear();
    return item;
  }
  static std::vector<Range> ranges(const Message& of) {
    return {of.range_list().begin(), of.range_list().end()};
  }

  BlockLayout layout_;
  Node node_;
  Outbox outbox_;
  Instant now_{1'000'000'000};
};

using Ranges = std::vector<Range>;

TEST_F(FetchRingTest, LeftNeighbourIsAskedOnceForAllLosses) {
  node_.ring.lost({0, {3, 5}});
  node_.ring.lost({4, {40, 50}});
  node_.ring.lost({0, {4, 6}});  // overlaps a range that was reported as lost before
  EXPECT_FALSE(node_.ring.idle());
  EXPECT_LE(node_.ring.next_deadline(), now_);
  poll(now_);
  const Outbox::Item request = sent();
  EXPECT_EQ(request.to, rank_of(1));
  EXPECT_EQ(request.message.kind, MessageKind::fetch_request);
  EXPECT_EQ(request.message.epoch, kEpoch);
  EXPECT_EQ(ranges(request.message), (Ranges{{3, 5}, {40, 50}, {5, 6}}));
  poll(now_);
  EXPECT_TRUE(outbox_.empty());
  EXPECT_EQ(node_.ring.counters().chunks_lost, 13u);
  EXPECT_TRUE(node_.ring.proven(4));
  EXPECT_FALSE(node_.ring.proven(6));
}

TEST_F(FetchRingTest, ManyRanges_areRequestedInTheFewestPossibleMessages) {
  for (std::uint32_t i = 0; i < 10; i += 2) {
    for (const std::uint32_t block : {0u, 1u, 3u, 4u}) {
      node_.ring.lost({block, {block * 10 + i, block * 10 + i + 1}});
    }
  }
  BlockLayout large = gather(2, 200);
  Node other(rank_of(0), 2, large, {});
  for (std::uint32_t i = 200; i < 400; i += 2) other.ring.lost({1, {i, i + 1}});
  other.ring.poll(now_, outbox_);
  EXPECT_EQ(outbox_.items().size(), (100 + kMaxRanges - 1) / kMaxRanges);
  outbox_.clear();
  poll(now_);
  EXPECT_EQ(sent().message.range_count, 20u);
}

TEST_F(FetchRingTest, RangesAnsweredReady_areRead_andTheRingIsThenIdle) {
  node_.ring.lost({1, {12, 15}});
  poll(now_);
  outbox_.clear();
  const auto reads = answer(rank_of(1), message(MessageKind::fetch_ready, {{12, 15}}, 77));
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].from, rank_of(1));
  EXPECT_EQ(reads[0].key, 77u);
  EXPECT_EQ(reads[0].block_index, 1u);
  EXPECT_EQ(reads[0].psns, (Range{12, 15}));
  read(reads[0]);
  poll(now_);
  EXPECT_TRUE(node_.ring.idle());
  EXPECT_EQ(node_.ring.next_deadline(), kNever);
  EXPECT_EQ(node_.ring.counters().chunks_read, 3u);
  EXPECT_EQ(node_.ring.counters().bytes_read, 30u);
}

TEST_F(FetchRingTest, NoChunkIsReadTwice) {
  node_.ring.lost({1, {10, 20}});
  poll(now_);
  outbox_.clear();
  const auto first = answer(rank_of(1), message(MessageKind::fetch_ready, {{12, 15}}));
  ASSERT_EQ(first.size(), 1u);
  const auto second = answer(rank_of(0), message(MessageKind::fetch_ready, {{10, 20}}));
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].psns, (Range{10, 12}));
  EXPECT_EQ(second[1].psns, (Range{15, 20}));
  for (const ReadOrder& order : second) read(order);
  read(first[0]);
  EXPECT_TRUE(answer(rank_of(1), message(MessageKind::fetch_ready, {{10, 20}})).empty());
}

TEST_F(FetchRingTest, ChunksThatArrivedSinceTheRequest_areNotRead) {
  node_.ring.lost({1, {10, 14}});
  poll(now_);
  outbox_.clear();
  node_.map.mark_run(1, {11, 12});
  const auto reads = answer(rank_of(1), message(MessageKind::fetch_ready, {{10, 14}}));
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads[0].psns, (Range{10, 11}));
  EXPECT_EQ(reads[1].psns, (Range{12, 14}));
  node_.map.mark_run(1, {10, 14});
  poll(now_);
  EXPECT_TRUE(node_.ring.idle());
}

TEST_F(FetchRingTest, FailedReadIsRetriedAtTheNextRank) {
  node_.ring.lost({4, {40, 42}});
  poll(now_);
  outbox_.clear();
  const auto reads = answer(rank_of(1), message(MessageKind::fetch_ready, {{40, 42}}));
  ASSERT_EQ(reads.size(), 1u);
  node_.ring.on_read_end(reads[0], false, 0);
  poll(now_);
  EXPECT_EQ(sent().to, rank_of(0));
  EXPECT_EQ(node_.ring.counters().bytes_read, 0u);
  EXPECT_EQ(answer(rank_of(0), message(MessageKind::fetch_ready, {{40, 42}})).size(), 1u)
      << "chunks of a failed READ may be read again";
}

TEST_F(FetchRingTest, Requests_ifNoRankAnswers_goToEachRankInTurn_thenAgain) {
  const FetchRing::Settings settings;
  // The lost chunk belongs to the block of rank 3. Rank 2 therefore asks its left neighbours 1, 0
  // and 4, and then the root, rank 3.
  node_.ring.lost({3, {30, 31}});
  for (const std::uint32_t target : {1u, 0u, 4u, 3u, 1u, 0u}) {
    poll(now_);
    EXPECT_EQ(sent().to, rank_of(target));
    poll(now_ + settings.patience - Nanoseconds(1));
    EXPECT_TRUE(outbox_.empty());
    EXPECT_EQ(node_.ring.next_deadline(), now_ + settings.patience);
    now_ = now_ + settings.patience;
  }
  EXPECT_EQ(node_.ring.counters().targets_skipped, 5u);
}

TEST_F(FetchRingTest, RequestsToSilentRanks_becomeRare_untilARankAnswersReady) {
  node_.ring.enquire({3, {30, 40}});
  const Instant end = now_ + std::chrono::hours(3);
  int requests = 0;
  for (; now_ < end; now_ = node_.ring.next_deadline()) {
    poll(now_);
    requests += static_cast<int>(outbox_.items().size());
    outbox_.clear();
  }
  // A root that has not begun the collective stores every request that it receives, so the
  // requests must be few.
  EXPECT_LT(requests, 200);
  EXPECT_GT(requests, 100);
  const FetchRing::Settings settings;
  poll(now_);
  const Rank asked = sent().to;
  EXPECT_EQ(answer(asked, message(MessageKind::fetch_ready, {{30, 31}}, 5)).size(), 1u);
  EXPECT_EQ(node_.ring.next_deadline(), now_ + settings.patience);
}

TEST_F(FetchRingTest, RequestForABlockWithoutArrivals_isForwardedUnchanged) {
  for (const std::uint64_t enquiry : {1u, 0u}) {
    const std::uint32_t block = enquiry == 1 ? 0 : 1;
    const Range psns{10 * block, 10 * block + 2};
    EXPECT_TRUE(node_.ring.on_request(
        rank_of(3), message(MessageKind::fetch_request, {psns}, enquiry), key(0), outbox_));
    EXPECT_EQ(sent().message.kind, MessageKind::fetch_pending);
    poll(now_);
    const Outbox::Item passed_on = sent();
    EXPECT_EQ(passed_on.to, rank_of(1));
    EXPECT_EQ(passed_on.message.kind, MessageKind::fetch_request);
    EXPECT_EQ(passed_on.message.argument, enquiry);
    EXPECT_EQ(node_.ring.enquired(psns.first), enquiry == 1);
  }
  // The first request is an enquiry: its chunks may not have been sent yet, so they do not count as
  // lost. Only the two chunks of the second request are counted.
  EXPECT_EQ(node_.ring.counters().chunks_lost, 2u);
}

TEST_F(FetchRingTest, PendingAnswer_restartsTheTimeoutOfTheRequest) {
  const FetchRing::Settings settings;
  node_.ring.lost({0, {0, 1}});
  poll(now_);
  outbox_.clear();
  now_ = now_ + milliseconds(60);
  EXPECT_TRUE(answer(rank_of(1), message(MessageKind::fetch_pending, {{0, 1}})).empty());
  EXPECT_TRUE(outbox_.empty()) << "a pending answer must not cause a retransmit request";
  poll(now_ + milliseconds(60));
  EXPECT_TRUE(outbox_.empty());
  poll(now_ + settings.patience);
  EXPECT_EQ(sent().to, rank_of(0));
}

TEST_F(FetchRingTest, LossSharedWithTheNeighbour_isReportedToTheRootOfTheBlock) {
  node_.ring.lost({0, {2, 4}});
  node_.ring.lost({4, {40, 41}});
  node_.ring.lost({4, {44, 45}});
  poll(now_);
  outbox_.clear();
  answer(rank_of(1), message(MessageKind::fetch_lost, {{2, 4}, {40, 41}, {44, 45}}));
  ASSERT_EQ(outbox_.items().size(), 2u);
  EXPECT_EQ(outbox_.items()[0].to, rank_of(0));
  EXPECT_EQ(outbox_.items()[0].message.kind, MessageKind::retransmit_request);
  EXPECT_EQ(ranges(outbox_.items()[0].message), (Ranges{{2, 4}}));
  EXPECT_EQ(outbox_.items()[1].to, rank_of(4));
  EXPECT_EQ(ranges(outbox_.items()[1].message), (Ranges{{40, 41}, {44, 45}}));
}

TEST_F(FetchRingTest, BlockAnsweredExpired_isRequestedFromTheNextRank) {
  node_.ring.lost({4, {40, 42}});
  node_.ring.lost({0, {0, 1}});
  poll(now_);
  outbox_.clear();
  answer(rank_of(1), message(MessageKind::fetch_expired, {{40, 42}}));
  poll(now_);
  const Outbox::Item request = sent();
  EXPECT_EQ(request.to, rank_of(0));
  EXPECT_EQ(ranges(request.message), (Ranges{{40, 42}}))
      << "only the block that has expired at rank 1 is requested from rank 0";
}

TEST_F(FetchRingTest, FirstTargetThatHasEnded_whileAChunkIsMissing_hasNotServedThisRank) {
  node_.ring.lost({0, {0, 2}});
  poll(now_);
  node_.map.mark_run(0, {0, 1});
  answer(rank_of(1), message(MessageKind::fetch_expired, {{0, 2}}));
  EXPECT_EQ(node_.ring.unserved_by(), rank_of(1));
}

TEST_F(FetchRingTest, AnswerExpired_ofALaterTargetOrAfterAllChunks_isLegal) {
  node_.ring.lost({0, {0, 1}});
  poll(now_);
  now_ = now_ + FetchRing::Settings().patience;
  poll(now_);
  EXPECT_EQ(outbox_.items().back().to, rank_of(0));
  answer(rank_of(0), message(MessageKind::fetch_expired, {{0, 1}}));
  poll(now_);
  EXPECT_EQ(outbox_.items().back().to, rank_of(1)) << "the first rank must be asked again";
  node_.map.mark_run(0, {0, 1});
  answer(rank_of(1), message(MessageKind::fetch_expired, {{0, 1}}));
  EXPECT_EQ(node_.ring.unserved_by(), kNoRank);
}

TEST_F(FetchRingTest, RepeatedAndOverlappingRequests_areAnsweredOncePerChunk) {
  const auto request = [&](Rank from, Range psns) {
    EXPECT_TRUE(
        node_.ring.on_request(from, message(MessageKind::fetch_request, {psns}), key(7), outbox_));
  };
  for (int i = 0; i < 100; ++i) request(rank_of(3), {2, 6});
  request(rank_of(3), {4, 8});
  request(rank_of(3), {3, 5});
  request(rank_of(4), {2, 6});
  outbox_.clear();
  node_.map.mark_run(0, {0, 10});
  node_.ring.serve_deferred(key(7), outbox_);
  std::vector<std::uint32_t> answers(10);  // to rank 3, by PSN
  std::uint32_t to_other = 0;
  for (const auto& item : outbox_.items()) {
    EXPECT_EQ(item.message.kind, MessageKind::fetch_ready);
    for (const Range range : item.message.range_list()) {
      if (item.to != rank_of(3)) to_other += range.size();
      for (std::uint32_t psn = range.first; item.to == rank_of(3) && psn < range.last; ++psn)
        ++answers[psn];
    }
  }
  EXPECT_EQ(answers, (std::vector<std::uint32_t>{0, 0, 1, 1, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(to_other, 4u);
  EXPECT_FALSE(node_.ring.has_deferred());
}

TEST_F(FetchRingTest, RequestThatOverlapsSeveralDeferredRanges_replacesOnlyTheOverlap) {
  const auto request = [&](Rank from, std::vector<Range> psns) {
    EXPECT_TRUE(node_.ring.on_request(from, message(MessageKind::fetch_request, std::move(psns)),
                                      key(7), outbox_));
  };
  request(rank_of(4), {{0, 3}, {4, 5}});
  request(rank_of(3), {{7, 10}, {4, 5}, {0, 3}});
  request(rank_of(3), {{2, 8}});
  outbox_.clear();
  node_.map.mark_run(0, {0, 10});
  node_.ring.serve_deferred(key(7), outbox_);
  ASSERT_EQ(outbox_.items().size(), 2u) << "each rank must get one message";
  EXPECT_EQ(outbox_.items()[0].to, rank_of(3));
  EXPECT_EQ(ranges(outbox_.items()[0].message), (Ranges{{0, 2}, {2, 8}, {8, 10}}));
  EXPECT_EQ(outbox_.items()[1].to, rank_of(4));
  EXPECT_EQ(ranges(outbox_.items()[1].message), (Ranges{{0, 3}, {4, 5}}));
}

TEST_F(FetchRingTest, MessagesWithRangesOutsideTheBlocks_areRefused) {
  std::vector<ReadOrder> reads;
  for (const Range range : {Range{48, 51}, Range{50, 51}, Range{8, 12}, Range{0, 0xffff'ffff}}) {
    EXPECT_FALSE(node_.ring.on_answer(now_, rank_of(1), message(MessageKind::fetch_ready, {range}),
                                      outbox_, reads));
    EXPECT_FALSE(node_.ring.on_request(rank_of(3), message(MessageKind::fetch_request, {range}),
                                       key(1), outbox_));
    std::vector<Range> again;
    EXPECT_FALSE(node_.ring.on_retransmit_request(
        now_, message(MessageKind::retransmit_request, {range}), again));
    EXPECT_TRUE(again.empty());
  }
  EXPECT_TRUE(reads.empty());
  EXPECT_TRUE(outbox_.empty());
  EXPECT_FALSE(node_.ring.has_deferred());
}

TEST_F(FetchRingTest, EachRangeOfARequest_isAnsweredReadyPendingOrLost) {
  node_.map.mark_run(0, {0, 4});
  node_.map.mark_run(0, {8, 10});
  node_.ring.lost({0, {4, 6}});
  node_.ring.on_request(rank_of(3), message(MessageKind::fetch_request, {{1, 10}, {12, 13}}),
                        key(55), outbox_);
  ASSERT_EQ(outbox_.items().size(), 3u);
  const auto& items = outbox_.items();
  EXPECT_EQ(items[0].message.kind, MessageKind::fetch_ready);
  EXPECT_EQ(items[0].message.argument, 55u);
  EXPECT_EQ(ranges(items[0].message), (Ranges{{1, 4}, {8, 10}}));
  EXPECT_EQ(items[1].message.kind, MessageKind::fetch_pending);
  EXPECT_EQ(items[2].message.kind, MessageKind::fetch_lost);
  // The rank answers "pending" for late chunks and "lost" for lost ones, so that the asking rank
  // requests no retransmission of chunks that are still under way.
  EXPECT_EQ(ranges(items[1].message), (Ranges{{6, 8}, {12, 13}}));
  EXPECT_EQ(ranges(items[2].message), (Ranges{{4, 6}}));
  for (const auto& item : items) EXPECT_EQ(item.to, rank_of(3));
  EXPECT_TRUE(node_.ring.has_deferred());
}

TEST_F(FetchRingTest, BlocksWithDifferentKeys_areAnsweredInSeparateMessages) {
  node_.map.mark_run(0, {0, 10});
  node_.map.mark_run(1, {10, 20});
  const auto key_of_block = [](std::uint32_t block_index) { return 100 + block_index; };
  node_.ring.on_request(rank_of(3),
                        message(MessageKind::fetch_request, {{1, 3}, {5, 10}, {10, 15}}),
                        key_of_block, outbox_);
  ASSERT_EQ(outbox_.items().size(), 2u);
  EXPECT_EQ(outbox_.items()[0].message.argument, 100u);
  EXPECT_EQ(ranges(outbox_.items()[0].message), (Ranges{{1, 3}, {5, 10}}));
  EXPECT_EQ(outbox_.items()[1].message.argument, 101u);
  EXPECT_EQ(ranges(outbox_.items()[1].message), (Ranges{{10, 15}}));
}

TEST_F(FetchRingTest, RequestAnsweredWithPending_isLaterAnsweredWithLost_ifTheChunkIsLost) {
  node_.ring.on_request(rank_of(3), message(MessageKind::fetch_request, {{0, 6}}), key(55),
                        outbox_);
  EXPECT_EQ(sent().message.kind, MessageKind::fetch_pending);
  node_.ring.lost({0, {2, 4}});
  poll(now_);
  ASSERT_EQ(outbox_.items().size(), 2u);
  EXPECT_EQ(outbox_.items()[0].to, rank_of(3));
  EXPECT_EQ(outbox_.items()[0].message.kind, MessageKind::fetch_lost);
  EXPECT_EQ(ranges(outbox_.items()[0].message), (Ranges{{2, 4}}));
  EXPECT_EQ(outbox_.items()[1].message.kind, MessageKind::fetch_request);
  EXPECT_EQ(ranges(outbox_.items()[1].message), (Ranges{{0, 6}}))
      << "the whole block is requested, because no chunk of it has arrived";
  outbox_.clear();
  node_.ring.lost({0, {4, 5}});
  poll(now_);
  ASSERT_EQ(outbox_.items().size(), 1u) << "the chunk was already requested with the whole block";
  EXPECT_EQ(ranges(outbox_.items()[0].message), (Ranges{{4, 5}})) << "each loss is reported once";
  outbox_.clear();
  node_.map.mark_run(0, {0, 6});
  node_.ring.serve_deferred(key(55), outbox_);
  std::vector<Range> ready = ranges(sent().message);
  std::sort(ready.begin(), ready.end(), [](Range a, Range b) { return a.first < b.first; });
  EXPECT_EQ(ready, (Ranges{{0, 2}, {2, 4}, {4, 5}, {5, 6}}));
}

TEST_F(FetchRingTest, ChunksThatAreOnlySuspectedLost_areRequested_butNotReportedAsLost) {
  node_.ring.lost({0, {2, 4}, false});
  EXPECT_FALSE(node_.ring.proven(2));
  poll(now_);
  EXPECT_EQ(ranges(sent().message), (Ranges{{2, 4}}));
  node_.ring.on_request(rank_of(3), message(MessageKind::fetch_request, {{2, 4}}), key(55),
                        outbox_);
  EXPECT_EQ(sent().message.kind, MessageKind::fetch_pending);
  node_.ring.lost({0, {2, 4}});
  EXPECT_TRUE(node_.ring.proven(2));
  poll(now_);
  const Outbox::Item lack = sent();
  EXPECT_EQ(lack.message.kind, MessageKind::fetch_lost)
      << "the proven loss is reported and not requested again";
  EXPECT_EQ(ranges(lack.message), (Ranges{{2, 4}}));
  EXPECT_EQ(node_.ring.counters().chunks_lost, 2u);
}

TEST_F(FetchRingTest, RequestedRanges_missingAtTheAskedRank_areAnsweredWhenTheyArrive) {
  node_.ring.on_request(rank_of(3), message(MessageKind::fetch_request, {{0, 2}, {5, 6}}), key(55),
                        outbox_);
  outbox_.clear();
  node_.ring.serve_deferred(key(55), outbox_);
  EXPECT_TRUE(outbox_.empty());
  node_.map.mark_run(0, {5, 6});
  node_.ring.serve_deferred(key(55), outbox_);
  const Outbox::Item ready = sent();
  EXPECT_EQ(ready.to, rank_of(3));
  EXPECT_EQ(ready.message.kind, MessageKind::fetch_ready);
  EXPECT_EQ(ready.message.argument, 55u);
  EXPECT_EQ(ranges(ready.message), (Ranges{{5, 6}}));
  node_.map.mark_run(0, {0, 2});
  node_.ring.serve_deferred(key(55), outbox_);
  EXPECT_EQ(ranges(sent().message), (Ranges{{0, 2}}));
  EXPECT_FALSE(node_.ring.has_deferred());
}

TEST_F(FetchRingTest, RequestForChunksThatThisRootHasNotSentYet_isAnsweredPending) {
  node_.ring.withhold({25, 30});
  node_.ring.on_request(rank_of(3), message(MessageKind::fetch_request, {{23, 27}}), key(1),
                        outbox_);
  ASSERT_EQ(outbox_.items().size(), 2u);
  EXPECT_EQ(ranges(outbox_.items()[0].message), (Ranges{{23, 25}}));
  EXPECT_EQ(outbox_.items()[1].message.kind, MessageKind::fetch_pending);
  EXPECT_EQ(ranges(outbox_.items()[1].message), (Ranges{{25, 27}}));
  outbox_.clear();
  // A retransmit request for chunks that were not yet sent must be ignored, because otherwise the
  // root would send these chunks twice.
  std::vector<Range> again;
  EXPECT_TRUE(node_.ring.on_retransmit_request(
      now_, message(MessageKind::retransmit_request, {{23, 27}}), again));
  EXPECT_EQ(again, (Ranges{{23, 25}}));
  node_.ring.withhold({27, 30});
  node_.ring.serve_deferred(key(1), outbox_);
  EXPECT_EQ(ranges(sent().message), (Ranges{{25, 27}}));
}

TEST_F(FetchRingTest, RequestForChunksThatThisRootHasNotSentYet_isNotCountedAsALoss) {
  node_.ring.withhold({20, 30});
  node_.ring.on_request(rank_of(3), message(MessageKind::fetch_request, {{20, 30}}), key(1),
                        outbox_);
  EXPECT_EQ(sent().message.kind, MessageKind::fetch_pending);
  EXPECT_EQ(node_.ring.counters().chunks_lost, 0u);
  EXPECT_TRUE(node_.ring.idle());
}

TEST_F(FetchRingTest, RootRetransmitsOnceWithinTheLingerTime) {
  const FetchRing::Settings settings;
  std::vector<Range> again;
  EXPECT_TRUE(node_.ring.on_retransmit_request(
      now_, message(MessageKind::retransmit_request, {{21, 23}, {25, 26}}), again));
  EXPECT_EQ(again, (Ranges{{21, 23}, {25, 26}}));
  again.clear();
  EXPECT_TRUE(node_.ring.on_retransmit_request(
      now_, message(MessageKind::retransmit_request, {{20, 24}}), again));
  EXPECT_EQ(again, (Ranges{{20, 21}, {23, 24}}));
  again.clear();
  now_ = now_ + settings.linger + Nanoseconds(1);
  EXPECT_TRUE(node_.ring.on_retransmit_request(
      now_, message(MessageKind::retransmit_request, {{21, 22}}), again));
  EXPECT_EQ(again, (Ranges{{21, 22}}))
      << "a range may be retransmitted again after the linger time";
}

TEST_F(FetchRingTest, RetransmitRequestToANonRootIsRefused) {
  std::vector<Range> again;
  EXPECT_FALSE(node_.ring.on_retransmit_request(
      now_, message(MessageKind::retransmit_request, {{10, 11}}), again));
  EXPECT_TRUE(again.empty());
}

/// Ranks that recover by messages and READs alone. Time passes only when no message and no READ is
/// under way.
class Rings {
 public:
  Rings(std::uint32_t size, std::uint32_t chunks, std::uint64_t seed)
      : size_(size), layout_(gather(size, chunks)), pump_(seed) {
    for (std::uint32_t r = 0; r < size; ++r) {
      nodes_.push_back(std::make_unique<Node>(rank_of(r), size, layout_, FetchRing::Settings()));
    }
  }

  /// Gives each rank its own block and the chunks of the other blocks, except some chunks that are
  /// lost at random.
  void deliver(std::uint32_t loss_ppm) {
    for (std::uint32_t psn = 0; psn < layout_.chunk_count(); ++psn) {
      const std::uint32_t b = layout_.block_of(psn);
      for (std::uint32_t r = 0; r < size_; ++r) {
        if (r == b || !pump_.random().chance_ppm(loss_ppm)) {
          nodes_[r]->map.mark_run(b, {psn, psn + 1});
        } else {
          lost_bytes_ += layout_.length_of(layout_.blocks()[b], psn);
        }
      }
    }
  }
  void declare_all() {
    for (auto& node : nodes_) {
      for (std::uint32_t b = 0; b < size_; ++b) {
        for (Range rest = layout_.blocks()[b].psns; !rest.empty();) {
          const Range missing = node->map.first_missing(b, rest);
          if (missing.empty()) break;
          node->ring.lost({b, missing});
          rest.first = missing.last;
        }
      }
    }
  }
  /// Sets the chance with which each retransmitted chunk reaches each rank.
  void repeats_arrive(std::uint32_t ppm) { repeat_ppm_ = ppm; }
  /// Drops all messages to `rank`, until about 50 rounds have passed in which no rank could act.
  void mute(Rank rank) { muted_ = rank; }
  /// Sets the chance with which each READ fails.
  void reads_fail(std::uint32_t ppm) { read_failure_ppm_ = ppm; }

  /// Runs until all ranks have all chunks; false if that takes longer than `limit`.
  bool run(Nanoseconds limit) {
    const Instant end = now_ + limit;
    while (!complete()) {
      poll_all();
      if (act()) continue;
      if (muted_ != kNoRank && stuck_rounds_++ > 50) muted_ = kNoRank;
      now_ = now_ + milliseconds(10);
      if (now_ > end) return false;
    }
    return true;
  }
  std::uint64_t lost_bytes() const { return lost_bytes_; }
  std::uint64_t read_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& node : nodes_) sum += node->ring.counters().bytes_read;
    return sum;
  }
  std::uint64_t skipped() const {
    std::uint64_t sum = 0;
    for (const auto& node : nodes_) sum += node->ring.counters().targets_skipped;
    return sum;
  }
  std::uint64_t repeated_chunks() const { return repeated_chunks_; }
  std::uint64_t hints() const { return pump_.sent(MessageKind::retransmit_request); }
  Nanoseconds elapsed() const { return now_ - Instant{1'000'000'000}; }
  bool idle() {
    poll_all();
    return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& n) { return n->ring.idle(); });
  }

 private:
  struct PendingRead {
    Rank reader;
    ReadOrder order;
  };

  bool complete() const {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [](const auto& node) { return node->map.complete(); });
  }
  void poll_all() {
    for (std::uint32_t r = 0; r < size_; ++r) {
      nodes_[r]->ring.poll(now_, outbox_);
      pump_.collect(rank_of(r), outbox_);
    }
  }
  bool act() {
    if (!reads_.empty() && (pump_.empty() || pump_.random().chance_ppm(400'000))) {
      finish_read();
      return true;
    }
    const auto delivery = pump_.next();
    if (!delivery) return false;
    if (delivery->to != muted_) on_message(*delivery);
    return true;
  }
  void finish_read() {
    const std::size_t at = pump_.random().below(reads_.size());
    const PendingRead read = reads_[at];
    reads_.erase(reads_.begin() + static_cast<std::ptrdiff_t>(at));
    Node& node = *nodes_[index(read.reader)];
    const ReadOrder& order = read.order;
    const bool success = !pump_.random().chance_ppm(read_failure_ppm_);
    if (success) {
      const Node& from = *nodes_[index(order.from)];
      EXPECT_TRUE(from.map.first_missing(order.block_index, order.psns).empty())
          << "a rank reads bytes from a rank that does not have them";
      EXPECT_EQ(order.key, 1000u + index(order.from));
      node.map.mark_run(order.block_index, order.psns);
    }
    node.ring.on_read_end(order, success,
                          layout_.bytes_of(layout_.blocks()[order.block_index], order.psns));
    serve(read.reader);
  }
  void serve(Rank rank) {
    nodes_[index(rank)]->ring.serve_deferred(key(1000 + index(rank)), outbox_);
    pump_.collect(rank, outbox_);
  }
  void on_message(const MessagePump::Delivery& delivery) {
    Node& node = *nodes_[index(delivery.to)];
    const Message& message = delivery.message;
    if (message.kind == MessageKind::fetch_request) {
      EXPECT_TRUE(
          node.ring.on_request(delivery.from, message, key(1000 + index(delivery.to)), outbox_));
    } else if (message.kind == MessageKind::retransmit_request) {
      std::vector<Range> again;
      EXPECT_TRUE(node.ring.on_retransmit_request(now_, message, again));
      for (const Range range : again) multicast_again(range);
    } else {
      std::vector<ReadOrder> orders;
      EXPECT_TRUE(node.ring.on_answer(now_, delivery.from, message, outbox_, orders));
      for (const ReadOrder& order : orders) reads_.push_back({delivery.to, order});
    }
    pump_.collect(delivery.to, outbox_);
  }
  void multicast_again(Range range) {
    const std::uint32_t b = layout_.block_of(range.first);
    for (std::uint32_t psn = range.first; psn < range.last; ++psn) {
      ++repeated_chunks_;
      for (std::uint32_t r = 0; r < size_; ++r) {
        if (r != b && pump_.random().chance_ppm(repeat_ppm_)) {
          nodes_[r]->map.mark_run(b, {psn, psn + 1});
        }
      }
    }
    for (std::uint32_t r = 0; r < size_; ++r) serve(rank_of(r));
  }

  std::uint32_t size_;
  BlockLayout layout_;
  MessagePump pump_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::deque<PendingRead> reads_;
  Outbox outbox_;
  Instant now_{1'000'000'000};
  std::uint64_t lost_bytes_ = 0;
  std::uint64_t repeated_chunks_ = 0;
  std::uint32_t repeat_ppm_ = 0;
  std::uint32_t read_failure_ppm_ = 0;
  Rank muted_ = kNoRank;
  int stuck_rounds_ = 0;
};

TEST(FetchRings, IndependentLossIsRecoveredByReadingTheLostBytesOnce) {
  for (const std::uint32_t size : {2u, 3u, 5u, 8u, 13u}) {
    for (const std::uint32_t ppm : {1'000u, 10'000u, 100'000u, 500'000u}) {
      Rings rings(size, 50, size * 7 + ppm);
      rings.deliver(ppm);
      rings.declare_all();
      SCOPED_TRACE(testing::Message() << size << " ranks, loss " << ppm << " ppm");
      ASSERT_TRUE(rings.run(milliseconds(90))) << "recovery must end before any patience does";
      EXPECT_EQ(rings.read_bytes(), rings.lost_bytes());
      EXPECT_EQ(rings.skipped(), 0u);
      EXPECT_TRUE(rings.idle());
    }
  }
}

TEST(FetchRings, LossOfAllChunks_andOfAllRetransmissions_isRecoveredByReads) {
  for (const std::uint32_t size : {2u, 3u, 4u, 7u, 12u}) {
    Rings rings(size, 20, size);
    rings.deliver(1'000'000);
    rings.declare_all();
    ASSERT_TRUE(rings.run(milliseconds(90))) << size << " ranks";
    EXPECT_EQ(rings.read_bytes(), rings.lost_bytes());
    if (size > 2) {
      EXPECT_GT(rings.hints(), 0u);
    }
    EXPECT_EQ(rings.skipped(), 0u);
  }
}

TEST(FetchRings, SharedLossIsRetransmittedByMulticast) {
  Rings rings(12, 20, 5);
  rings.deliver(1'000'000);
  rings.declare_all();
  rings.repeats_arrive(1'000'000);
  ASSERT_TRUE(rings.run(milliseconds(90)));
  EXPECT_LE(rings.repeated_chunks(), 12u * 20u) << "each chunk is retransmitted at most once";
  // Before the retransmission only the right neighbour of a root can READ a lost chunk, because
  // only the root has that chunk.
  EXPECT_LT(rings.read_bytes() * 2, rings.lost_bytes());
}

TEST(FetchRings, RequestThatARankDoesNotAnswer_goesToTheNextRank) {
  for (const std::uint32_t size : {3u, 5u, 9u}) {
    Rings rings(size, 20, size);
    rings.deliver(200'000);
    rings.declare_all();
    rings.mute(rank_of(size / 2));
    ASSERT_TRUE(rings.run(std::chrono::seconds(20)));
    EXPECT_GT(rings.skipped(), 0u);
    EXPECT_EQ(rings.read_bytes(), rings.lost_bytes());
  }
}

TEST(FetchRings, FailedReadsAreRetried) {
  for (const std::uint32_t size : {2u, 4u, 9u}) {
    Rings rings(size, 20, size);
    rings.deliver(300'000);
    rings.declare_all();
    rings.reads_fail(200'000);
    ASSERT_TRUE(rings.run(std::chrono::seconds(20)));
    EXPECT_EQ(rings.read_bytes(), rings.lost_bytes())
        << "a failed READ must not count as bytes read";
  }
}

}  // namespace
}  // namespace tutti::protocol
