// Tests how a block is sent through a send queue that is full or that drains.
#include "engine/multicast/block_sender.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "fake_endpoint.hpp"

namespace tutti::engine {
namespace {

constexpr std::uint32_t kChunk = 64;
constexpr std::uint32_t kBlockChunks = 300;
constexpr Instant kNow{1'000'000};

/// A queue pair that accepts `room` chunks and refuses all further ones.
class Queue final : public device::MulticastQueuePair {
 public:
  std::uint32_t room = 0;
  std::uint32_t posted = 0;

  Result<std::uint32_t> post(const device::ChunkRun& run) override {
    const auto chunks = static_cast<std::uint32_t>(run.data.size() / run.chunk_bytes);
    const std::uint32_t accepted = std::min(chunks, room);
    room -= accepted;
    posted += accepted;
    return accepted;
  }
  std::uint64_t unsent_bytes() override { return std::uint64_t{posted} * kChunk; }
  std::size_t poll(std::span<device::ReceivedChunk>) override { return 0; }
  bool copy_and_verify(const device::ReceivedChunk&, std::byte*) override { return false; }
  void release() override {}
  Status post_probe(std::uint32_t, std::uint32_t) override { return {}; }
};

class Sending : public testing::Test {
 protected:
  Sending() {
    EXPECT_TRUE(layout_.add(rank_of(0), 0, std::uint64_t{kBlockChunks} * kChunk));
    sender_ = std::make_unique<BlockSender>(layout_, 0, std::span(data_), 1, Priority::normal,
                                            endpoint_, counters_);
  }
  /// Sends until the queue accepts no more chunks, as one poll of the operation does.
  void round() {
    sender_->begin_round();
    while (sender_->send(kNow, kBlockChunks)) {
    }
  }
  Queue& queue() { return endpoint_.pairs[0]; }

  protocol::BlockLayout layout_{kChunk, 1, std::uint64_t{kBlockChunks} * kChunk};
  std::vector<std::byte> data_ = std::vector<std::byte>(std::size_t{kBlockChunks} * kChunk);
  test::FakeEndpoint<Queue> endpoint_{1};
  observe::Counters counters_;
  std::unique_ptr<BlockSender> sender_;
};

TEST_F(Sending, FullSendQueue_blocksTheSenderUntilTheNextRound) {
  queue().room = 100;
  round();
  EXPECT_EQ(queue().posted, 100u);
  EXPECT_TRUE(sender_->blocked());
  EXPECT_TRUE(sender_->retry_after().has_value());
  EXPECT_TRUE(sender_->queue_filled());
  EXPECT_EQ(counters_.send_queue_full, 1u);
  queue().room = kBlockChunks;
  round();
  EXPECT_TRUE(sender_->posted_all());
  EXPECT_FALSE(sender_->blocked());
  EXPECT_FALSE(sender_->retry_after().has_value());
}

// While the send queue has room, the socket is writable. A wait until it is writable would return
// at once, so the sender would busy-poll.
TEST_F(Sending, SendQueueThatIsNotFull_isPolledAgainAfterItsDrainTime) {
  queue().room = kBlockChunks;
  round();
  ASSERT_TRUE(sender_->posted_all());
  sender_->drain(Nanoseconds(50'000));
  EXPECT_FALSE(sender_->blocked());
  EXPECT_EQ(sender_->retry_after(), Nanoseconds(50'000));
  EXPECT_TRUE(sender_->queue_filled()) << "the link is slower than the sender";
  sender_->begin_round();
  EXPECT_FALSE(sender_->retry_after().has_value());
}

TEST_F(Sending, DrainingSendQueue_onASlowLink_isPolledWithin200Microseconds) {
  sender_->drain(Nanoseconds(1'000'000'000));
  ASSERT_TRUE(sender_->retry_after().has_value());
  EXPECT_LE(*sender_->retry_after(), Nanoseconds(200'000));
}

}  // namespace
}  // namespace tutti::engine
