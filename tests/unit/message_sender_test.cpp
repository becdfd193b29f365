// Tests how messages are deferred while the send queue is full.
#include "engine/messages/message_sender.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/error.hpp"
#include "fake_endpoint.hpp"

namespace tutti::engine {
namespace {

constexpr Instant kNow{1'000'000};

struct NoPair final : device::MulticastQueuePair {
  Result<std::uint32_t> post(const device::ChunkRun&) override { return 0u; }
  std::uint64_t unsent_bytes() override { return 0; }
  std::size_t poll(std::span<device::ReceivedChunk>) override { return 0; }
  bool copy_and_verify(const device::ReceivedChunk&, std::byte*) override { return false; }
  void release() override {}
  Status post_probe(std::uint32_t, std::uint32_t) override { return {}; }
};

/// Refuses work for the ranks in `full`, and records the epochs of the messages that it takes.
struct Queues final : test::FakeEndpoint<NoPair> {
  Queues() : FakeEndpoint(1) {}
  Status post(Instant, const device::WorkRequest& request) override {
    if (full.contains(request.peer)) {
      return failure(Code::resource_exhausted, "the queue to rank {} is full", index(request.peer));
    }
    taken.push_back({request.peer, protocol::decode(request.local)->epoch});
    return {};
  }
  std::size_t max_message_bytes() const override { return 4096; }

  std::set<Rank> full;
  std::vector<std::pair<Rank, std::uint32_t>> taken;
};

using Taken = std::vector<std::pair<Rank, std::uint32_t>>;

class MessageSenderTest : public testing::Test {
 protected:
  void send(std::uint32_t to, std::uint32_t epoch) {
    protocol::Outbox outbox;
    outbox.send(rank_of(to), protocol::MessageKind::failed, epoch);
    sender_.send(kNow, outbox);
  }

  Queues queues_;
  observe::Counters counters_;
  MessageSender sender_{queues_, counters_};
};

TEST_F(MessageSenderTest, FullSendQueueToOneRank_doesNotDelayMessagesToOtherRanks) {
  queues_.full = {rank_of(0)};
  send(0, 1);
  send(1, 2);
  send(2, 3);
  EXPECT_EQ(queues_.taken, (Taken{{rank_of(1), 2}, {rank_of(2), 3}}));
  EXPECT_TRUE(sender_.has_deferred());
}

TEST_F(MessageSenderTest, DeferredMessages_keepTheirOrder) {
  queues_.full = {rank_of(0)};
  send(0, 1);
  send(0, 2);
  queues_.full.clear();
  send(0, 3);
  EXPECT_TRUE(queues_.taken.empty()) << "the third message must not overtake";
  sender_.post_deferred(kNow);
  EXPECT_EQ(queues_.taken, (Taken{{rank_of(0), 1}, {rank_of(0), 2}, {rank_of(0), 3}}));
  EXPECT_FALSE(sender_.has_deferred());
}

TEST_F(MessageSenderTest, DroppedMessages_areNotSentLater) {
  queues_.full = {rank_of(0)};
  send(0, 1);
  sender_.drop_deferred();
  queues_.full.clear();
  sender_.post_deferred(kNow);
  EXPECT_TRUE(queues_.taken.empty());
}

}  // namespace
}  // namespace tutti::engine
