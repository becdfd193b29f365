// Tests the order of the three steps of a poll of an endpoint's connections: it reads frames,
// checks for silent peers, and sends frames. The test supplies the frames that the poll reads.
#include "device/rc/channel_set.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace tutti::device::rc {
namespace {

using Bytes = std::vector<std::byte>;

constexpr Nanoseconds kPeerTimeout{1'000'000'000};
constexpr Instant kBegin{1'000};

struct Failures : CompletionSink {
  void push(const Completion& completion) override {
    count += completion.opcode == Opcode::failure ? 1 : 0;
  }
  int count = 0;
};

/// One end of a connection between two ranks. Sent frames wait at the other end until that end
/// receives them.
class Side final : public FrameSocket {
 public:
  explicit Side(std::uint32_t me) : channels(rank_of(me), 2), peer_(rank_of(1 - me)) {
    RcConfig config;
    config.peer_timeout = kPeerTimeout;
    EXPECT_TRUE(channels.configure(config).ok());
  }

  bool receive(Instant now) override {
    ++receives;
    sent_before_receive = other->arrived.size();
    if (arrived.empty()) return false;
    channels[peer_].on_frame(now, arrived.front(), completions);
    arrived.pop_front();
    return !arrived.empty();
  }
  bool send(Instant now, Rank, RcChannel& channel) override {
    OutgoingFrame frame;
    while (channel.next_frame(now, frame)) {
      if (full) {
        channel.take_back(frame);
        return false;
      }
      other->arrived.push_back(frame.bytes());
    }
    return true;
  }
  void poll(Instant now) { channels.poll(now, *this, completions); }

  ChannelSet channels;
  Failures completions;
  std::deque<Bytes> arrived;
  Side* other = nullptr;
  bool full = false;  ///< whether the send queue is full
  int receives = 0;
  std::size_t sent_before_receive = 0;  ///< length of other->arrived at the last receive()

 private:
  Rank peer_;
};

class ChannelSetTest : public testing::Test {
 protected:
  ChannelSetTest() {
    left_.other = &right_;
    right_.other = &left_;
  }
  void post() {
    WorkRequest request{.opcode = Opcode::send, .peer = rank_of(1), .local = note_};
    ASSERT_TRUE(left_.channels.post(kBegin, request).ok());
  }

  Bytes note_ = Bytes(40);
  Side left_{0};
  Side right_{1};
};

// The left end did not poll for longer than the peer timeout. Meanwhile the answer of its peer
// arrived, so the peer must not count as silent.
TEST_F(ChannelSetTest, AnswerInTheReceiveQueue_isReadBeforeThePeerIsDeclaredLost) {
  post();
  left_.poll(kBegin);
  right_.poll(kBegin + Nanoseconds(1'000));
  right_.poll(kBegin + Nanoseconds(2'000'000));
  ASSERT_FALSE(left_.arrived.empty());
  left_.poll(kBegin + kPeerTimeout * 2);
  left_.poll(kBegin + kPeerTimeout * 2 + Nanoseconds(1'000));
  EXPECT_EQ(left_.completions.count, 0);
  EXPECT_TRUE(left_.channels.quiet());
}

TEST_F(ChannelSetTest, SilenceOfThePeer_whileThisRankIsStopped_isNotCounted_butLaterSilenceIs) {
  post();
  left_.poll(kBegin);
  left_.poll(kBegin + kPeerTimeout * 2);
  EXPECT_EQ(left_.completions.count, 0);
  for (int tenths = 1; tenths <= 20; ++tenths) {
    left_.poll(kBegin + kPeerTimeout * 2 + kPeerTimeout / 10 * tenths);
  }
  EXPECT_EQ(left_.completions.count, 1);
}

TEST_F(ChannelSetTest, FloodOfFrames_isReadInSeveralPolls) {
  left_.arrived.assign(100, Bytes(7));
  left_.poll(kBegin);
  EXPECT_EQ(left_.receives, 8);
  EXPECT_EQ(left_.arrived.size(), 92u);
}

TEST_F(ChannelSetTest, FramesThatFindTheSendQueueFull_areRetriedWithinAMillisecond) {
  post();
  left_.full = true;
  left_.poll(kBegin);
  EXPECT_TRUE(right_.arrived.empty());
  const Instant next = left_.channels.next_deadline();
  EXPECT_LE(next, kBegin + Nanoseconds(1'000'000));
  left_.full = false;
  left_.poll(next);
  EXPECT_EQ(right_.arrived.size(), 1u);
  EXPECT_GT(left_.channels.next_deadline(), next + Nanoseconds(1'000'000));
}

TEST_F(ChannelSetTest, WorkPostedAfterAPoll_isDueAtOnce_andNotAtTheNextTimer) {
  left_.poll(kBegin);
  EXPECT_EQ(left_.channels.next_deadline(), kNever);
  post();
  const Instant next = left_.channels.next_deadline();
  EXPECT_LE(next, kBegin);
  left_.poll(kBegin);
  EXPECT_EQ(right_.arrived.size(), 1u);
  EXPECT_GT(left_.channels.next_deadline(), kBegin);
}

TEST_F(ChannelSetTest, PostedWork_isSentBeforeThePollReceives) {
  post();
  left_.poll(kBegin);
  EXPECT_EQ(left_.receives, 1);
  EXPECT_EQ(left_.sent_before_receive, 1u);
  EXPECT_EQ(right_.arrived.size(), 1u) << "the frame must be sent once";
}

/// A socket that records the destination of each frame. As a FrameGate, it limits the frames that
/// each connection has in flight, except frames of high priority.
class OrderOfPeers final : public FrameSocket, public FrameGate {
 public:
  OrderOfPeers() : channels(rank_of(0), 4) {
    EXPECT_TRUE(channels.configure({}).ok());
    channels.use_gate(*this);
  }

  bool receive(Instant) override { return false; }
  bool send(Instant now, Rank peer, RcChannel& channel) override {
    OutgoingFrame frame;
    while (channel.next_frame(now, frame)) peers.push_back(index(peer));
    return true;
  }
  std::optional<Allowance> allowance(const Backlog& backlog, Instant) override {
    if (backlog.priority == Priority::high) return std::nullopt;
    return Allowance{};
  }
  void post(std::uint32_t peer, std::size_t bytes, Priority priority) {
    const WorkRequest request{.opcode = Opcode::write,
                              .peer = rank_of(peer),
                              .local = std::span(data_).first(bytes),
                              .priority = priority};
    EXPECT_TRUE(channels.post(kBegin, request).ok());
  }

  ChannelSet channels;
  Failures completions;
  std::vector<std::uint32_t> peers;

 private:
  Bytes data_ = Bytes(100'000);
};

TEST(ChannelSetPriority, FramesOfAHigherPriority_goFirst) {
  OrderOfPeers socket;
  socket.post(1, 40, Priority::low);
  socket.post(2, 40, Priority::normal);
  socket.post(3, 40, Priority::high);
  socket.channels.poll(kBegin, socket, socket.completions);
  EXPECT_EQ(socket.peers, (std::vector<std::uint32_t>{3, 2, 1}));
}

TEST(ChannelSetPriority, FramesHeldBack_areReportedAsWaitingAtTheirPriority) {
  OrderOfPeers socket;
  socket.post(1, 100'000, Priority::low);
  socket.channels.poll(kBegin, socket, socket.completions);
  EXPECT_EQ(socket.peers.size(), 4u) << "the gate allows four frames";
  EXPECT_EQ(socket.channels.waiting(), Priority::low);
  socket.post(2, 40, Priority::high);
  socket.channels.poll(kBegin, socket, socket.completions);
  EXPECT_EQ(socket.peers.back(), 2u);
  EXPECT_EQ(socket.channels.waiting(), Priority::low);
  socket.channels[rank_of(1)].fail(Code::peer_failed, socket.completions);
  socket.channels.poll(kBegin, socket, socket.completions);
  EXPECT_EQ(socket.channels.waiting(), std::nullopt) << "a failed connection waits for nothing";
}

}  // namespace
}  // namespace tutti::device::rc
