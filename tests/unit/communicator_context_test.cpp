// Tests that a failed communicator ends its operations even if the function that reports its
// failure throws, and begins no receive; that a chunk for an operation without multicast fails it;
// and that a communicator without calls watches no peer.
#include "engine/core/communicator_context.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "fuzz/scripted_endpoint.hpp"
#include "protocol/codec/tagged_message.hpp"

namespace tutti::engine {
namespace {

constexpr Instant kNow{1'000'000};

/// An operation that never ends by itself.
class EndlessOperation final : public Operation {
 public:
  explicit EndlessOperation(bool& finished)
      : Operation({"barrier", "endless"}), finished_(&finished) {}

  bool out_of_memory = false;
  bool throws_in_prepare = false;
  bool throws_in_start = false;

  bool prepare(CommunicatorContext&) override {
    if (throws_in_prepare) throw std::bad_alloc();
    return false;
  }
  bool poll(Instant) override { return false; }
  bool locally_complete() const override { return true; }
  bool done() const override { return false; }
  observe::Phase phase() const override { return observe::Phase::data; }
  Missing missing() const override {
    if (out_of_memory) throw std::bad_alloc();
    return {};
  }
  void finish() override { *finished_ = true; }

 protected:
  void start(Instant, bool) override {
    if (throws_in_start) throw std::bad_alloc();
  }

 private:
  bool* finished_;
};

class FailedContext : public testing::Test {
 protected:
  EndlessOperation& begin() {
    EndlessOperation& operation = submit();
    context_.poll(kNow);
    return operation;
  }
  EndlessOperation& submit() {
    finished_.push_back(false);
    auto owned = std::make_unique<EndlessOperation>(finished_.back());
    EndlessOperation& operation = *owned;
    operation.completion()->callback = [this, &operation,
                                        &finished = finished_.back()](const Status& status) {
      EXPECT_NE(finished, operation.throws_in_prepare)
          << "memory must be deregistered before its buffer is given back";
      ++ends_;
      end_ = status;
    };
    context_.operations().submit(std::move(owned));
    return operation;
  }
  /// Polls as the owner of the engine does: if the poll throws, the communicator fails.
  void poll() {
    try {
      context_.poll(kNow);
    } catch (const std::exception& error) {
      context_.failures().fail(failure(Code::internal, "{}", error.what()));
    }
  }

  CommunicatorContext context_{Rank{1}, 2, Settings{}, std::make_unique<fuzz::ScriptedEndpoint>(),
                               std::vector<std::string>{"rank 0", "rank 1"}};
  std::deque<bool> finished_;  ///< whether each operation has deregistered its memory
  int ends_ = 0;               ///< number of ended operations
  Status end_;                 ///< status of the operation that ended last
};

TEST_F(FailedContext, Operations_whenTheFailureHookThrows_endInTheSamePoll) {
  begin();
  context_.failures().on_failure([](const Status&) { throw std::runtime_error("disk is full"); });
  context_.failures().fail(failure(Code::peer_failed, "rank 0 is lost"));
  EXPECT_NO_THROW(context_.poll(kNow));
  EXPECT_EQ(ends_, 1);
  EXPECT_NE(end_.message().find("barrier #1 (endless"), std::string::npos) << end_.to_string();
  EXPECT_NE(end_.message().find("rank 0 is lost"), std::string::npos) << end_.to_string();
}

TEST_F(FailedContext, Operations_whenBuildingTheErrorThrows_endAfterTheFailureHook) {
  begin();
  begin().out_of_memory = true;
  int reports = 0;
  context_.failures().on_failure([&](const Status&) {
    ++reports;
    EXPECT_EQ(ends_, 0) << "the failure must be reported before an operation ends";
  });
  context_.failures().fail(failure(Code::peer_failed, "rank 0 is lost"));
  poll();
  EXPECT_EQ(reports, 0) << "the exception must come before the report";
  poll();
  poll();
  EXPECT_EQ(reports, 1);
  EXPECT_EQ(ends_, 2) << "every operation must end once";
  EXPECT_EQ(end_.code(), Code::peer_failed);
  EXPECT_NE(end_.message().find("rank 0 is lost"), std::string::npos) << end_.to_string();
  EXPECT_TRUE(context_.operations().idle());
}

TEST_F(FailedContext, OperationWhoseStartThrows_isFinishedBeforeItEnds) {
  EndlessOperation& operation = submit();
  operation.throws_in_start = true;
  poll();
  EXPECT_TRUE(context_.operations().active().empty()) << "the operation must be set aside";
  EXPECT_EQ(ends_, 0);
  EXPECT_TRUE(finished_.back());
  poll();
  EXPECT_EQ(ends_, 1);
}

TEST_F(FailedContext, OperationThatThrowsBeforeItBegins_endsWithoutFinish) {
  EndlessOperation& operation = submit();
  operation.throws_in_prepare = true;
  poll();
  EXPECT_TRUE(context_.operations().active().empty()) << "the operation must be set aside";
  poll();
  EXPECT_EQ(ends_, 1);
  EXPECT_FALSE(finished_.back());
}

TEST_F(FailedContext, DeliveryAckThatIsDue_wakesNoThread) {
  context_.retention().schedule_ack(kNow, Rank{0}, 1);
  EXPECT_LT(context_.next_deadline(), kNever);
  context_.failures().fail(failure(Code::peer_failed, "rank 0 is lost"));
  poll();
  poll();
  EXPECT_EQ(context_.next_deadline(), kNever);
}

TEST_F(FailedContext, ReceiveOfAMessageBeyondTheLimit_fails_andGetsNoMessage) {
  constexpr std::size_t kPayloadBytes = 900;
  std::array<std::byte, kPayloadBytes> buffer{};
  std::array<std::byte, protocol::kMaxTaggedHeaderBytes> header{};
  std::uint64_t tag = 0;
  while (!context_.failures().noted()) {
    ASSERT_LT(++tag, 1'000u) << "256 KiB of unexpected messages must be too many";
    const std::size_t header_bytes = protocol::encode_tagged({.tag = tag}, header);
    std::vector<std::byte> message(header.begin(), header.begin() + header_bytes);
    message.resize(header_bytes + kPayloadBytes);
    context_.tagged().on_message(kNow, Rank{0}, message);
  }
  const auto completion = std::make_shared<Completion>();
  context_.tagged().submit(
      std::make_unique<TaggedCall>(TaggedCall{.kind = TaggedCall::Kind::receive,
                                              .peer = Rank{0},
                                              .tag = tag,
                                              .buffer = buffer,
                                              .completion = completion}));
  poll();
  EXPECT_TRUE(completion->done);
  EXPECT_EQ(completion->status.code(), Code::peer_failed) << completion->status.to_string();
  EXPECT_EQ(completion->message.bytes, 0u);
}

/// Records which peers are watched.
class WatchingEndpoint final : public fuzz::ScriptedEndpoint {
 public:
  explicit WatchingEndpoint(std::set<Rank>& watched) : watched_(watched) {}
  void watch(Rank peer, bool on) override {
    on ? (void)watched_.insert(peer) : (void)watched_.erase(peer);
  }

 private:
  std::set<Rank>& watched_;
};

TEST(CommunicatorContext, ReceiveThatBeginsAndEndsInOnePoll_leavesNoPeerWatched) {
  std::set<Rank> watched;
  auto owned = std::make_unique<WatchingEndpoint>(watched);
  WatchingEndpoint& endpoint = *owned;
  CommunicatorContext context(Rank{1}, 3, Settings{}, std::move(owned),
                              std::vector<std::string>{"rank 0", "rank 1", "rank 2"});
  std::array<std::byte, protocol::kMaxTaggedHeaderBytes> header;
  const std::size_t bytes = protocol::encode_tagged({.tag = 7}, header);
  endpoint.deliver(Rank{0}, {header.begin(), header.begin() + bytes});
  const auto completion = std::make_shared<Completion>();
  context.tagged().submit(std::make_unique<TaggedCall>(TaggedCall{
      .kind = TaggedCall::Kind::receive, .peer = kNoRank, .tag = 7, .completion = completion}));
  context.poll(kNow);
  EXPECT_TRUE(completion->done);
  EXPECT_TRUE(completion->status.ok()) << completion->status.to_string();
  EXPECT_TRUE(watched.empty()) << watched.size() << " peers are watched";
}

TEST(CommunicatorContext, ReceiveOfAMessageOfWhichOnlyAPartHasArrived_watchesItsSender) {
  std::set<Rank> watched;
  CommunicatorContext context(Rank{1}, 3, Settings{}, std::make_unique<WatchingEndpoint>(watched),
                              std::vector<std::string>{"rank 0", "rank 1", "rank 2"});
  constexpr std::size_t kMessageBytes = 4000;
  std::array<std::byte, protocol::kMaxTaggedHeaderBytes> header;
  const std::size_t bytes = protocol::encode_tagged({.tag = 7}, header);
  ASSERT_TRUE(context.tagged().match(Rank{0}, std::span(header).first(bytes), kMessageBytes));
  std::array<std::byte, kMessageBytes> buffer;
  const auto completion = std::make_shared<Completion>();
  context.tagged().submit(std::make_unique<TaggedCall>(TaggedCall{.kind = TaggedCall::Kind::receive,
                                                                  .peer = Rank{0},
                                                                  .tag = 7,
                                                                  .buffer = buffer,
                                                                  .completion = completion}));
  context.poll(kNow);
  EXPECT_FALSE(completion->done);
  EXPECT_EQ(watched, std::set{Rank{0}});
}

/// Delivers chunks that the test supplies.
class ChunkEndpoint final : public fuzz::ScriptedEndpoint {
 public:
  /// Makes the next poll return a chunk of rank 0.
  void arrive(std::uint32_t epoch, bool intact) {
    pair_.chunks.push_back({.epoch = epoch, .psn = 0, .source = Rank{0}, .payload = pair_.payload});
    pair_.intact = intact;
  }
  device::MulticastQueuePair& multicast(std::uint32_t) override { return pair_; }
  /// The number of chunks that were verified.
  int verified() const { return pair_.verified; }

 private:
  struct Pair final : fuzz::SilentQueuePair {
    std::size_t poll(std::span<device::ReceivedChunk> into) override {
      std::copy(chunks.begin(), chunks.end(), into.begin());
      return std::exchange(chunks, {}).size();
    }
    bool copy_and_verify(const device::ReceivedChunk&, std::byte*) override {
      ++verified;
      return intact;
    }

    std::array<std::byte, 100> payload{};
    std::vector<device::ReceivedChunk> chunks;
    bool intact = true;
    int verified = 0;
  };

  Pair pair_;
};

/// Tests an operation that multicasts nothing, with epoch 1.
class UnsuitableChunk : public testing::Test {
 protected:
  UnsuitableChunk() { operation_ = begin(); }

  std::shared_ptr<Completion> begin() {
    auto owned = std::make_unique<EndlessOperation>(finished_);
    auto completion = owned->completion();
    context_.operations().submit(std::move(owned));
    return completion;
  }
  /// Polls until the queue pair has been polled, which may be in the fourth round only.
  void poll() {
    for (int round = 0; round < 4; ++round) context_.poll(kNow);
  }
  void expect_failed(const Completion& completion) {
    EXPECT_TRUE(completion.done);
    EXPECT_EQ(completion.status.code(), Code::invalid_argument);
    EXPECT_NE(completion.status.message().find("sent 100 bytes by multicast"), std::string::npos)
        << completion.status.to_string();
    EXPECT_EQ(context_.counters().chunks_malformed, 1u);
  }

  bool finished_ = false;
  ChunkEndpoint& endpoint_ = *new ChunkEndpoint;
  CommunicatorContext context_{Rank{1}, 2, Settings{}, std::unique_ptr<ChunkEndpoint>(&endpoint_),
                               std::vector<std::string>{"rank 0", "rank 1"}};
  std::shared_ptr<Completion> operation_;
};

TEST_F(UnsuitableChunk, IntactChunk_failsTheOperation) {
  poll();
  endpoint_.arrive(1, true);
  poll();
  expect_failed(*operation_);
}

TEST_F(UnsuitableChunk, IntactChunkBeforeTheOperationBegins_failsIt) {
  poll();
  endpoint_.arrive(2, true);
  poll();
  EXPECT_EQ(context_.counters().chunks_unexpected, 1u);
  EXPECT_FALSE(operation_->done);
  const auto next = begin();
  poll();
  expect_failed(*next);
}

TEST_F(UnsuitableChunk, DamagedOrStaleChunk_isIgnored) {
  poll();
  endpoint_.arrive(1, false);
  poll();
  endpoint_.arrive(0, true);
  poll();
  EXPECT_EQ(context_.counters().chunks_stale, 1u);
  EXPECT_FALSE(operation_->done);
  EXPECT_FALSE(context_.failures().noted());
}

TEST_F(UnsuitableChunk, StaleChunk_whileMulticastMayBeLost_endsThisDoubtOnlyIfItIsAuthentic) {
  poll();
  const GroupMembership& membership = context_.receiver().membership();
  endpoint_.arrive(0, true);
  poll();
  EXPECT_EQ(endpoint_.verified(), 0) << "without a doubt, no time is spent on stale chunks";
  context_.receiver().membership().missed(Rank{0}, 100);
  endpoint_.arrive(0, false);
  poll();
  EXPECT_EQ(endpoint_.verified(), 1);
  EXPECT_TRUE(membership.suspects());
  endpoint_.arrive(0, true);
  poll();
  EXPECT_EQ(endpoint_.verified(), 2);
  EXPECT_FALSE(membership.suspects());
  EXPECT_EQ(context_.counters().chunks_stale, 3u);
}

/// Counts the polls of the multicast queue pair.
class CountingEndpoint final : public fuzz::ScriptedEndpoint {
 public:
  explicit CountingEndpoint(int& polls) : pair_(polls) {}
  device::MulticastQueuePair& multicast(std::uint32_t) override { return pair_; }

 private:
  class Pair final : public fuzz::SilentQueuePair {
   public:
    explicit Pair(int& polls) : polls_(polls) {}
    std::size_t poll(std::span<device::ReceivedChunk>) override { return ++polls_, 0; }

   private:
    int& polls_;
  };

  Pair pair_;
};

TEST(CommunicatorContext, QueuePair_whileAReceiveWaits_isPolledInEveryFourthRound) {
  int polls = 0;
  CommunicatorContext context(Rank{1}, 2, Settings{}, std::make_unique<CountingEndpoint>(polls),
                              std::vector<std::string>{"rank 0", "rank 1"});
  for (int round = 0; round < 100; ++round) context.poll(kNow);
  EXPECT_EQ(polls, 100) << "an idle rank must read all multicast";
  context.tagged().submit(
      std::make_unique<TaggedCall>(TaggedCall{.kind = TaggedCall::Kind::receive,
                                              .peer = kNoRank,
                                              .completion = std::make_shared<Completion>()}));
  for (int round = 0; round < 100; ++round) context.poll(kNow);
  EXPECT_EQ(polls, 125);
}

}  // namespace
}  // namespace tutti::engine
