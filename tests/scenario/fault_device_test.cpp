#include "sim/fault/fault_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/fault/fault_queue_pair.hpp"
#include "wire/header.hpp"

namespace tutti::device::fault {
namespace {

FaultPlan plan(const std::string& text) {
  auto parsed = FaultPlan::parse(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  return parsed ? *parsed : FaultPlan{};
}

TEST(FaultPlan, EveryConditionIsParsed) {
  const FaultPlan read = plan(
      "seed=9;  drop receiver chunk rate=1.25% epoch=3 psn=5-9 source=4 ranks=0,2 occurrences=2\n"
      "reorder receiver chunk distance=7 by=250us;");
  ASSERT_EQ(read.rules.size(), 2u);
  EXPECT_EQ(read.seed, 9u);
  const FaultRule& drop = read.rules[0];
  EXPECT_EQ(drop.action, Action::drop);
  EXPECT_EQ(drop.place, FaultSite::receiver);
  EXPECT_EQ(drop.packet, Packet::chunk);
  EXPECT_EQ(drop.rate_ppm, 12'500u);
  EXPECT_EQ(drop.epochs, (Interval{3, 3}));
  EXPECT_EQ(drop.psns, (Interval{5, 9}));
  EXPECT_EQ(drop.source, rank_of(4));
  EXPECT_EQ(drop.ranks, (std::vector<Rank>{rank_of(0), rank_of(2)}));
  EXPECT_EQ(drop.occurrences, 2u);
  EXPECT_EQ(read.rules[1].distance, 7u);
  EXPECT_EQ(read.rules[1].by, Nanoseconds(250'000));
}

TEST(FaultPlan, PrintedPlan_parsesToTheSamePlan) {
  for (const char* text :
       {"seed=1", "seed=7; drop receiver chunk rate=1%",
        "seed=1; drop sender chunk psn=17 occurrences=1",
        "seed=1; drop sender reliable rate=0.0001% source=3 ranks=1,2",
        "seed=1; duplicate sender reliable rate=100%", "seed=1; drop receiver probe occurrences=3",
        "seed=1; delay receiver chunk by=3ms; reorder receiver chunk rate=10% distance=4",
        "seed=1; delay receiver chunk by=0ns", "seed=1; duplicate receiver chunk by=1s",
        "seed=1; corrupt receiver chunk epoch=4294967295 psn=0-4294967294"}) {
    const FaultPlan once = plan(text);
    EXPECT_EQ(plan(once.to_string()), once) << text << " prints as " << once.to_string();
  }
  EXPECT_EQ(plan("drop receiver chunk rate=0.5% ranks=1").to_string(),
            "seed=1; drop receiver chunk rate=0.5% ranks=1");
}

TEST(FaultPlan, UnusableRules_areRefused_andQuotedInTheError) {
  for (const char* text : {"lose receiver chunk",
                           "drop everywhere chunk",
                           "drop receiver",
                           "drop receiver message",
                           "drop receiver chunk rate=1",
                           "drop receiver chunk rate=101%",
                           "drop receiver chunk rate=-1%",
                           "drop receiver chunk rate=1.00001%",
                           "drop receiver chunk psn=9-5",
                           "drop receiver chunk psn=5-",
                           "drop receiver chunk ranks=",
                           "drop receiver chunk ranks=a",
                           "drop receiver chunk colour=1",
                           "drop receiver chunk rate",
                           "drop receiver chunk by=3ms",
                           "drop receiver chunk distance=3",
                           "delay receiver chunk by=3",
                           "delay receiver chunk by=-1ms",
                           "delay sender chunk",
                           "reorder sender chunk",
                           "corrupt sender chunk",
                           "drop receiver reliable",
                           "corrupt sender reliable",
                           "duplicate receiver probe",
                           "drop sender probe psn=1",
                           "drop sender chunk ranks=1",
                           "seed=x",
                           "delay receiver chunk by=9223372036854775807s",
                           "drop receiver chunk epoch=4294967296"}) {
    const auto parsed = FaultPlan::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), Code::invalid_argument);
    EXPECT_NE(parsed.status().message().find(std::string(text).substr(0, 6)), std::string::npos)
        << parsed.status().message();
  }
}

std::set<std::uint32_t> struck(const FaultPlan& by, std::uint32_t receiver, std::uint32_t count) {
  std::set<std::uint32_t> psns;
  for (std::uint32_t psn = 0; psn < count; ++psn) {
    if (decide(by, {.epoch = 2, .psn = psn, .source = rank_of(0), .receiver = rank_of(receiver)})) {
      psns.insert(psn);
    }
  }
  return psns;
}

TEST(FaultDecision, Decisions_haveTheGivenRate_andDependOnTheSeed) {
  const auto one = struck(plan("seed=1; drop receiver chunk rate=10%"), 1, 100'000);
  EXPECT_NEAR(static_cast<double>(one.size()), 10'000, 400);
  EXPECT_EQ(one, struck(plan("seed=1; drop receiver chunk rate=10%"), 1, 100'000));
  EXPECT_NE(one, struck(plan("seed=2; drop receiver chunk rate=10%"), 1, 100'000));
  EXPECT_NE(one, struck(plan("seed=1; drop receiver chunk rate=10%"), 2, 100'000))
      << "the losses of two receivers must be independent";
}

TEST(FaultDecision, SecondRule_doesNotChangeTheRandomDrawsOfTheFirst) {
  const auto alone = struck(plan("drop receiver chunk rate=10%"), 1, 1000);
  const auto second =
      struck(plan("drop receiver chunk rate=10%; drop receiver chunk psn=5"), 1, 1000);
  auto expected = alone;
  expected.insert(5);
  EXPECT_EQ(second, expected);
}

TEST(FaultDecision, Rule_appliesOnlyIfAllItsConditionsHold) {
  const FaultPlan by =
      plan("drop receiver chunk epoch=3-4 psn=5-9 source=4 ranks=0,2 occurrences=2");
  const Subject meets{
      .epoch = 3, .psn = 5, .source = rank_of(4), .receiver = rank_of(2), .occurrence = 1};
  EXPECT_NE(decide(by, meets), nullptr);
  const auto with = [&](auto&& change) {
    Subject subject = meets;
    change(subject);
    return decide(by, subject) != nullptr;
  };
  EXPECT_FALSE(with([](Subject& s) { s.place = FaultSite::sender; }));
  EXPECT_FALSE(with([](Subject& s) { s.packet = Packet::probe; }));
  EXPECT_FALSE(with([](Subject& s) { s.epoch = 5; }));
  EXPECT_FALSE(with([](Subject& s) { s.psn = 4; }));
  EXPECT_FALSE(with([](Subject& s) { s.psn = 10; }));
  EXPECT_FALSE(with([](Subject& s) { s.source = rank_of(3); }));
  EXPECT_FALSE(with([](Subject& s) { s.receiver = rank_of(1); }));
  EXPECT_FALSE(with([](Subject& s) { s.occurrence = 2; }));
}

TEST(OccurrenceCounter, CopiesOfAChunk_areStillCounted_afterManyNewerChunks) {
  OccurrenceCounter counter;
  EXPECT_EQ(counter.of(1, 2, rank_of(3)), 0u);
  counter.count(1, 2, rank_of(3));
  counter.count(1, 2, rank_of(3));
  counter.count(1, 2, rank_of(4));
  EXPECT_EQ(counter.of(1, 2, rank_of(3)), 2u);
  EXPECT_EQ(counter.of(1, 2, rank_of(4)), 1u);
  EXPECT_EQ(counter.of(2, 2, rank_of(3)), 0u);
  for (std::uint32_t psn = 0; psn < (1u << 18) + 10; ++psn) counter.count(2, psn, rank_of(0));
  EXPECT_EQ(counter.of(1, 2, rank_of(3)), 2u)
      << "chunks of the older generation must still be counted";
  EXPECT_EQ(counter.of(2, (1u << 18) + 9, rank_of(0)), 1u);
}

/// A queue pair without a network. The test supplies the chunks that arrive, and reads the chunks
/// that were posted.
class FakeQueuePair final : public MulticastQueuePair {
 public:
  Result<std::uint32_t> post(const ChunkRun& run) override {
    std::uint32_t accepted = 0;
    for (std::size_t at = 0; at < run.data.size() && room > 0; at += run.chunk_bytes, --room) {
      posted.push_back(run.first_psn + accepted++);
      sizes.push_back(std::min<std::size_t>(run.chunk_bytes, run.data.size() - at));
      firsts.push_back(run.data[at]);
    }
    ++posts;
    return accepted;
  }
  std::uint64_t unsent_bytes() override { return 12; }
  std::size_t poll(std::span<ReceivedChunk> chunks) override {
    std::size_t filled = 0;
    while (filled < std::min(chunks.size(), batch) && !arriving.empty()) {
      current.push_back(std::move(arriving.front()));
      arriving.pop_front();
      const std::span<const std::byte> bytes(current.back());
      const auto header = *wire::decode(bytes);
      chunks[filled++] = {header.epoch, header.psn, header.source,
                          bytes.subspan(wire::kHeaderBytes), bytes.data()};
    }
    return filled;
  }
  bool copy_and_verify(const ReceivedChunk& chunk, std::byte*) override {
    // In an intact chunk every payload byte is the low byte of the PSN, and the tag is the PSN.
    std::uint64_t tag = 0;
    std::memcpy(&tag, chunk.header + wire::kTagOffset, sizeof tag);
    return tag == chunk.psn && std::all_of(chunk.payload.begin(), chunk.payload.end(), [&](auto b) {
             return b == static_cast<std::byte>(chunk.psn);
           });
  }
  void release() override {
    // The fake queue pair overwrites its staging memory on release, as a device may.
    for (auto& bytes : current) std::fill(bytes.begin(), bytes.end(), std::byte{0xee});
    current.clear();
  }
  Status post_probe(std::uint32_t, std::uint32_t) override {
    ++probes;
    return {};
  }
  void arrive(std::uint32_t psn, std::uint32_t epoch = 2) {
    std::vector<std::byte> bytes(wire::kHeaderBytes + 16, static_cast<std::byte>(psn));
    wire::encode({.source = rank_of(0), .epoch = epoch, .psn = psn, .tag = psn}, bytes.data());
    arriving.push_back(std::move(bytes));
  }

  std::vector<std::uint32_t> posted;
  std::vector<std::size_t> sizes;
  std::vector<std::byte> firsts;
  std::size_t room = 1000;
  std::size_t batch = 1000;
  int posts = 0;
  int probes = 0;
  std::deque<std::vector<std::byte>> arriving;
  std::deque<std::vector<std::byte>> current;
};

class FaultQueuePairTest : public testing::Test {
 protected:
  void decorate(const std::string& faults, std::uint32_t rank = 1) {
    context_.plan = plan(faults);
    context_.rank = rank_of(rank);
    context_.counters = std::make_shared<InjectedCounters>();
    pair_ = std::make_unique<FaultQueuePair>(inner_, context_);
  }
  std::uint32_t post(std::uint32_t first, std::size_t bytes) {
    data_.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i) data_[i] = static_cast<std::byte>(i / 10);
    auto accepted = pair_->post({.epoch = 2, .first_psn = first, .data = data_, .chunk_bytes = 10});
    EXPECT_TRUE(accepted.ok());
    return *accepted;
  }
  /// Polls the queue pair once and returns the PSNs of the chunks. The PSNs of chunks that are not
  /// intact also go into `damaged_`.
  std::vector<std::uint32_t> poll() {
    std::vector<std::uint32_t> psns;
    const std::size_t count = pair_->poll(chunks_);
    for (std::size_t i = 0; i < count; ++i) {
      psns.push_back(chunks_[i].psn);
      if (!pair_->copy_and_verify(chunks_[i], nullptr)) damaged_.push_back(chunks_[i].psn);
    }
    if (count > 0) pair_->release();
    return psns;
  }
  void at(std::int64_t microseconds) { context_.now_ns = microseconds * 1000; }
  Injected injected() const { return context_.counters->snapshot(); }

  using Psns = std::vector<std::uint32_t>;
  FakeQueuePair inner_;
  FaultContext context_;
  std::unique_ptr<FaultQueuePair> pair_;
  std::vector<std::byte> data_;
  std::vector<ReceivedChunk> chunks_ = std::vector<ReceivedChunk>(8);
  Psns damaged_;
};

TEST_F(FaultQueuePairTest, ChunkRunWithoutFaults_isPassedOnWhole) {
  decorate("drop sender chunk psn=100");
  EXPECT_EQ(post(5, 35), 4u);
  EXPECT_EQ(inner_.posts, 1);
  EXPECT_EQ(inner_.posted, (Psns{5, 6, 7, 8}));
  EXPECT_EQ(pair_->unsent_bytes(), 12u);
}

TEST_F(FaultQueuePairTest, ChunkRun_isSplitAroundDroppedChunks) {
  decorate("drop sender chunk psn=6-7; drop sender chunk psn=9; drop sender chunk psn=11");
  EXPECT_EQ(post(5, 65), 7u) << "a dropped chunk must count as accepted";
  EXPECT_EQ(inner_.posted, (Psns{5, 8, 10}));
  EXPECT_EQ(inner_.sizes, (std::vector<std::size_t>{10, 10, 10}));
  EXPECT_EQ(inner_.firsts, (std::vector<std::byte>{std::byte{0}, std::byte{3}, std::byte{5}}));
  EXPECT_EQ(injected().chunks_dropped_at_sender, 4u);
  EXPECT_EQ(injected().bytes_dropped_at_sender, 35u)
      << "the last chunk must keep its length of five bytes";
}

TEST_F(FaultQueuePairTest, ChunksThatAFullQueueRefuses_areCountedOnlyWhenPostedAgain) {
  decorate("drop sender chunk psn=7 occurrences=1");
  inner_.room = 1;
  EXPECT_EQ(post(5, 50), 1u);
  inner_.room = 2;
  EXPECT_EQ(post(6, 40), 3u) << "chunks 6 and 8 and the dropped chunk 7 count as accepted";
  inner_.room = 10;
  EXPECT_EQ(post(9, 10), 1u);
  EXPECT_EQ(inner_.posted, (Psns{5, 6, 8, 9}));
  EXPECT_EQ(post(7, 10), 1u);
  EXPECT_EQ(inner_.posted.back(), 7u) << "only the first copy must be dropped";
  EXPECT_EQ(injected().chunks_dropped_at_sender, 1u);
}

TEST_F(FaultQueuePairTest, SenderRuleDuplicatesAChunk) {
  decorate("duplicate sender chunk psn=6");
  EXPECT_EQ(post(5, 30), 3u);
  EXPECT_EQ(inner_.posted, (Psns{5, 6, 6, 7}));
  EXPECT_EQ(injected().chunks_duplicated, 1u);
}

TEST_F(FaultQueuePairTest, SenderRuleDropsProbes) {
  decorate("drop sender probe occurrences=2");
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_TRUE(pair_->post_probe(i, 0).ok());
  EXPECT_EQ(inner_.probes, 3);
  EXPECT_EQ(injected().probes_dropped, 2u);
}

TEST_F(FaultQueuePairTest, ReceiverRule_dropsChunksOnlyAtTheRanksThatItNames) {
  decorate("drop receiver chunk psn=2-3 ranks=1; drop receiver chunk psn=4 ranks=2");
  for (std::uint32_t psn = 0; psn < 6; ++psn) inner_.arrive(psn);
  EXPECT_EQ(poll(), (Psns{0, 1, 4, 5}));
  EXPECT_EQ(injected().chunks_dropped_at_receiver, 2u);
  EXPECT_EQ(injected().bytes_dropped_at_receiver, 32u);
  EXPECT_TRUE(damaged_.empty());
}

TEST_F(FaultQueuePairTest, PollContinuesAfterADroppedBatch) {
  decorate("drop receiver chunk psn=0-8");
  inner_.batch = 3;
  for (std::uint32_t psn = 0; psn < 12; ++psn) inner_.arrive(psn);
  EXPECT_EQ(poll(), (Psns{9, 10, 11}));
  EXPECT_EQ(poll(), Psns{});
}

TEST_F(FaultQueuePairTest, DelayedChunk_arrivesWhenItsDelayHasPassed) {
  decorate("delay receiver chunk psn=1 by=500us");
  EXPECT_EQ(pair_->next_due(), kNever);
  at(1000);
  for (std::uint32_t psn = 0; psn < 3; ++psn) inner_.arrive(psn);
  EXPECT_EQ(poll(), (Psns{0, 2}));
  EXPECT_EQ(pair_->next_due(), Instant{1'500'000});
  at(1499);
  EXPECT_EQ(poll(), Psns{});
  at(1500);
  inner_.arrive(3);
  EXPECT_EQ(poll(), (Psns{1, 3}));
  EXPECT_EQ(pair_->next_due(), kNever);
  EXPECT_TRUE(damaged_.empty()) << "a delayed chunk must keep its own bytes";
}

TEST_F(FaultQueuePairTest, ReorderedChunk_arrivesAfterEnoughLaterChunks_orAfterItsTimeLimit) {
  decorate("reorder receiver chunk psn=1 distance=2 by=500us");
  at(0);
  for (std::uint32_t psn = 0; psn < 3; ++psn) inner_.arrive(psn);
  EXPECT_EQ(poll(), (Psns{0, 2}));
  inner_.arrive(3);
  EXPECT_EQ(poll(), (Psns{3}));
  EXPECT_EQ(pair_->next_due(), Instant{}) << "the chunk must be released after two later chunks";
  EXPECT_EQ(poll(), (Psns{1}));
  inner_.arrive(1, 3);
  EXPECT_EQ(poll(), Psns{});
  at(500);
  EXPECT_EQ(poll(), (Psns{1}));
  EXPECT_EQ(injected().chunks_reordered, 2u);
  EXPECT_TRUE(damaged_.empty());
}

TEST_F(FaultQueuePairTest, ReceiverRule_deliversTheDuplicateOfAChunkAfterTheDelay) {
  decorate("duplicate receiver chunk psn=1 by=500us");
  inner_.arrive(1);
  EXPECT_EQ(poll(), (Psns{1}));
  EXPECT_EQ(poll(), Psns{});
  at(500);
  EXPECT_EQ(poll(), (Psns{1}));
  EXPECT_EQ(poll(), Psns{});
  EXPECT_TRUE(damaged_.empty());
}

TEST_F(FaultQueuePairTest, CorruptRuleFlipsOneBitOfACopy) {
  decorate("corrupt receiver chunk psn=1-200");
  chunks_.resize(300);
  for (std::uint32_t psn = 0; psn < 202; ++psn) inner_.arrive(psn);
  EXPECT_EQ(poll().size(), 202u);
  ASSERT_EQ(damaged_.size(), 200u);
  EXPECT_EQ(damaged_.front(), 1u);
  EXPECT_EQ(damaged_.back(), 200u);
  EXPECT_EQ(injected().chunks_corrupted, 200u);
}

TEST(PlannedFrameTap, FramesOfTheChosenConnections_areDroppedOrDuplicated) {
  const auto counters = std::make_shared<InjectedCounters>();
  PlannedFrameTap tap(plan("drop sender reliable source=0 ranks=1 occurrences=2;"
                           "duplicate sender reliable source=2"),
                      counters);
  EXPECT_EQ(tap.copies(rank_of(0), rank_of(1), 0), 0u);
  EXPECT_EQ(tap.copies(rank_of(0), rank_of(2), 0), 1u);
  EXPECT_EQ(tap.copies(rank_of(0), rank_of(1), 0), 0u);
  EXPECT_EQ(tap.copies(rank_of(0), rank_of(1), 0), 1u);
  EXPECT_EQ(tap.copies(rank_of(2), rank_of(0), 0), 2u);
  EXPECT_EQ(counters->snapshot().frames_dropped, 2u);
  EXPECT_EQ(counters->snapshot().frames_duplicated, 1u);
}

TEST(FaultDevice, OpenWithoutAnInnerDeviceIsRefused) {
  FaultDevice device(plan(""));
  EndpointOptions options;
  options.rank = rank_of(0);
  options.size = 1;
  const auto endpoint = device.open(options);
  ASSERT_FALSE(endpoint.ok());
  EXPECT_EQ(endpoint.status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace tutti::device::fault
