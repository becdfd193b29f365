// Tests that a reliable channel whose path has lost a frame sends the last frame of a burst twice.
#include <gtest/gtest.h>

#include "device/rc/rc_channel.hpp"
#include "rc_harness.hpp"

namespace tutti::device::rc {
namespace {

using namespace test;  // NOLINT: namespace `test` holds only the harness of these tests

/// Two ends of a connection after a WRITE from end 0 to end 1 that lost one frame in the middle.
class LossyPath : public testing::Test {
 protected:
  LossyPath() : region_(4 << 20), local_(region_.size()) {
    key_ = pair[1].memory.add(region_).value();
    std::size_t seen = 0;
    pair.filter = [&seen](std::size_t, const Bytes& bytes) {
      return kind_of(bytes) != RcKind::write || ++seen != 20;
    };
    write(100'000);
    pair.filter = nullptr;
    for (std::size_t end : {0, 1}) {
      EXPECT_EQ(pair[end].counters.timeouts, 0u);
      before_[end] = pair[end].counters.tail_probes;
    }
  }

  void write(std::size_t bytes) {
    const auto data = std::span(local_).first(bytes);
    ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, data, key_)).ok());
    ASSERT_TRUE(pair.run_until_quiet());
  }
  void post_message(std::size_t from) { ASSERT_TRUE(pair.post(from, send_of(message_)).ok()); }
  /// The number of tail probes that `end` has sent since the loss was repaired.
  std::uint64_t repeated(std::size_t end) { return pair[end].counters.tail_probes - before_[end]; }

  Pair pair{30};

 private:
  Bytes region_;
  Bytes local_;
  Bytes message_ = Bytes(100, std::byte{7});
  MemoryKey key_;
  std::uint64_t before_[2] = {};
};

TEST_F(LossyPath, LostMessage_inEitherDirection_isRepairedWithoutATimeout) {
  for (std::size_t from : {0, 1}) {
    bool dropped = false;
    pair.filter = [&](std::size_t, const Bytes& bytes) {
      const bool drop = !dropped && kind_of(bytes) == RcKind::send;
      dropped |= drop;
      return !drop;
    };
    post_message(from);
    const Instant start = pair.now();
    ASSERT_TRUE(pair.run([&] { return pair[1 - from].of(Opcode::receive).size() == 1; }));
    EXPECT_TRUE(dropped);
    EXPECT_LT(pair.now() - start, RcConfig{}.rto_min / 4);
    ASSERT_TRUE(pair.run_until_quiet());
    EXPECT_EQ(repeated(from), 1u);
    EXPECT_EQ(pair[from].counters.timeouts, 0u);
    EXPECT_EQ(pair[1 - from].of(Opcode::receive).size(), 1u);
  }
}

TEST_F(LossyPath, OnlyTheLastFrameOfABurstIsSentTwice) {
  for (int i = 0; i < 10; ++i) post_message(0);
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(repeated(0), 1u);
  EXPECT_EQ(pair[1].of(Opcode::receive).size(), 10u);
}

TEST_F(LossyPath, FrameThatFillsTheWindow_isNotSentTwice) {
  write(1 << 20);  // four windows
  EXPECT_EQ(repeated(0), 1u);
}

TEST_F(LossyPath, LossyPath_afterAThousandFramesWithoutLoss_sendsNoFrameTwice) {
  write(2 << 20);
  const std::uint64_t then = repeated(0);
  post_message(0);
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(repeated(0), then);
}

TEST_F(LossyPath, TailProbeReturnedUnsent_delaysNoFrame) {
  post_message(0);
  OutgoingFrame first;
  OutgoingFrame second;
  const std::uint64_t sent = pair[0].counters.frames_sent;
  ASSERT_TRUE(pair.channel(0).next_frame(pair.now(), first));
  ASSERT_TRUE(pair.channel(0).next_frame(pair.now(), second));
  EXPECT_FALSE(first.repeated);
  EXPECT_TRUE(second.repeated);
  EXPECT_EQ(second.sequence, first.sequence);
  pair.channel(0).take_back(second);
  EXPECT_EQ(repeated(0), 0u);
  pair.channel(0).take_back(first);
  EXPECT_EQ(pair[0].counters.frames_sent, sent);
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(pair[1].of(Opcode::receive).size(), 1u);
  EXPECT_EQ(pair[0].counters.timeouts, 0u);
}

TEST(GoodPath, FramesOnAPathWithoutLossAreSentOnce) {
  Pair pair(31);
  Bytes message(100);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(pair.post(0, send_of(message)).ok());
    ASSERT_TRUE(pair.run_until_quiet());
  }
  EXPECT_EQ(pair[0].counters.tail_probes, 0u);
  EXPECT_EQ(pair[1].counters.frames_duplicate, 0u);
}

}  // namespace
}  // namespace tutti::device::rc
