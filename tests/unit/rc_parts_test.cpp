// Tests single parts of a reliable channel: congestion window, timeouts, delayed ACK, frame
// receiver and response queue.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

#include "device/rc/completion_queue.hpp"
#include "device/rc/rc_delayed_ack.hpp"
#include "device/rc/rc_frame.hpp"
#include "device/rc/rc_frame_receiver.hpp"
#include "device/rc/rc_peer_timeout.hpp"
#include "device/rc/rc_response_queue.hpp"
#include "device/rc/rc_work_queue.hpp"
#include "device/rc/window/rc_congestion_window.hpp"
#include "device/rc/window/rc_retransmission_timeout.hpp"

namespace tutti::device::rc {
namespace {

TEST(CongestionWindow, SeveralLossesInOneWindow_halveTheWindowOnce) {
  CongestionWindow window(64);
  window.on_loss(10, 40);
  window.on_loss(40, 45);
  EXPECT_EQ(window.frames(), 32u);
  window.on_loss(41, 60);
  EXPECT_EQ(window.frames(), 16u);
}

TEST(CongestionWindow, EachAcknowledgedWindow_addsOneFrame_upToTheMaximum) {
  CongestionWindow window(8);
  window.on_loss(1, 1);
  ASSERT_EQ(window.frames(), 4u);
  window.on_acknowledged(3);
  EXPECT_EQ(window.frames(), 4u);
  window.on_acknowledged(1);
  EXPECT_EQ(window.frames(), 5u);
  for (int i = 0; i < 100; ++i) window.on_acknowledged(1);
  EXPECT_EQ(window.frames(), 8u);
}

TEST(CongestionWindow, FullWindowAllowsFewRetransmissionsAfterALoss) {
  CongestionWindow window(64);
  EXPECT_FALSE(window.may_resend(64));
  window.on_loss(1, 64);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(window.may_resend(64)) << i;
    window.on_resend(64);
  }
  EXPECT_FALSE(window.may_resend(64));
  EXPECT_TRUE(window.may_resend(31));
}

TEST(CongestionWindow, LimitOfTheWindow_appliesToNewFrames_notToRetransmissions) {
  CongestionWindow window(64);
  window.limit(1);
  EXPECT_EQ(window.frames(), 1u);
  EXPECT_TRUE(window.may_resend(63));
  window.limit(20);
  EXPECT_EQ(window.frames(), 20u);
  window.limit(UINT32_MAX);
  EXPECT_EQ(window.frames(), 64u);
}

TEST(RetransmissionTimeout, EachExpiry_doublesTheTimeout_untilAnAckArrives) {
  RetransmissionTimeout timeout({Nanoseconds(1000), Nanoseconds(8000), Nanoseconds(50'000)});
  EXPECT_EQ(timeout.current(), Nanoseconds(1000));
  timeout.expired();
  timeout.expired();
  EXPECT_EQ(timeout.current(), Nanoseconds(4000));
  EXPECT_EQ(timeout.in_a_row(), 2u);
  for (int i = 0; i < 100; ++i) timeout.expired();
  EXPECT_EQ(timeout.current(), Nanoseconds(50'000));
  timeout.restart();
  EXPECT_EQ(timeout.current(), Nanoseconds(1000));
}

TEST(RetransmissionTimeout, SteadyRoundTrips_bringTheTimeoutNearToOneRoundTrip) {
  RetransmissionTimeout timeout({Nanoseconds(1000), Nanoseconds(800'000), Nanoseconds(1'000'000)});
  timeout.sample(Nanoseconds(100'000));
  // After one sample of the round-trip time, the deviation is half of the sample, and the timeout
  // is the sample plus four deviations.
  EXPECT_EQ(timeout.current(), Nanoseconds(300'000));
  for (int i = 0; i < 50; ++i) timeout.sample(Nanoseconds(100'000));
  EXPECT_EQ(timeout.smoothed_round_trip(), Nanoseconds(100'000));
  EXPECT_LT(timeout.current(), Nanoseconds(101'000));
  timeout.sample(Nanoseconds(10'000'000));
  EXPECT_EQ(timeout.current(), Nanoseconds(800'000));
}

TEST(WorkQueue, Priority_isTheHighestOfTheWorkNotYetCutIntoFrames) {
  const RcConfig config;
  WorkQueue works(rank_of(1), config, 0);
  std::array<std::byte, 8> note{};
  EXPECT_EQ(works.priority(), Priority::normal);
  for (const Priority priority : {Priority::low, Priority::high, Priority::low}) {
    WorkRequest request{.opcode = Opcode::send, .local = note, .priority = priority};
    ASSERT_TRUE(works.push(request).ok());
  }
  FrameRecord record;
  for (const Priority expected : {Priority::high, Priority::high, Priority::low}) {
    EXPECT_EQ(works.priority(), expected);
    works.cut(record);
  }
  EXPECT_EQ(works.priority(), Priority::normal);
}

TEST(CompletionQueue, PayloadMemory_ifEveryPollTakesOneCompletion_isReused) {
  CompletionQueue queue;
  const std::array<std::byte, 100> message{std::byte{7}};
  std::array<Completion, 4> taken;
  const std::byte* place = nullptr;
  for (int poll = 0; poll < 1000; ++poll) {
    queue.push({.opcode = Opcode::receive, .payload = message});
    ASSERT_EQ(queue.take(taken), 1u);
    ASSERT_EQ(taken[0].payload.size(), message.size());
    ASSERT_EQ(taken[0].payload[0], std::byte{7});
    if (poll == 0) place = taken[0].payload.data();
    ASSERT_EQ(taken[0].payload.data(), place) << "poll " << poll;
  }
  EXPECT_EQ(queue.take(taken), 0u);
}

TEST(CompletionQueue, QueueThatNeverBecomesEmpty_staysShort_andKeepsOrderAndPayloads) {
  CompletionQueue queue;
  std::array<Completion, 3> taken;
  std::uint64_t pushed = 0;
  const auto push = [&] {
    const std::vector<std::byte> message(50 + pushed % 50, static_cast<std::byte>(pushed));
    queue.push({.work_id = pushed++, .payload = message});
  };
  std::uint64_t expected = 0;
  const std::byte* first = nullptr;
  const std::byte* last = nullptr;
  for (int i = 0; i < 10; ++i) push();
  for (int poll = 0; poll < 10'000; ++poll) {
    for (std::size_t i = 0; i < taken.size(); ++i) push();
    ASSERT_EQ(queue.take(taken), taken.size());
    for (const Completion& one : taken) {
      ASSERT_EQ(one.work_id, expected);
      ASSERT_EQ(one.payload.size(), 50 + expected % 50);
      ASSERT_EQ(one.payload.back(), static_cast<std::byte>(expected++));
    }
    if (poll < 100) continue;  // the payload memory grows in the first polls
    const std::byte* const place = taken[0].payload.data();
    first = first == nullptr ? place : std::min(first, place);
    last = std::max(last, place);
  }
  EXPECT_FALSE(queue.empty());
  EXPECT_LT(last - first, 100 * 100) << "bytes between the payloads of different polls";
}

TEST(CompletionQueue, CompletionsThatDoNotFit_areTakenInOrderByLaterPolls) {
  CompletionQueue queue;
  std::array<Completion, 2> taken;
  for (std::uint64_t id = 0; id < 3; ++id) queue.push({.work_id = id});
  ASSERT_EQ(queue.take(taken), 2u);
  queue.push({.work_id = 3});
  ASSERT_EQ(queue.take(taken), 2u);
  EXPECT_EQ(taken[0].work_id, 2u);
  EXPECT_EQ(taken[1].work_id, 3u);
  EXPECT_TRUE(queue.empty());
}

TEST(DelayedAck, ArrivalIsAcknowledgedAfterTheDelay) {
  DelayedAck ack(Nanoseconds(500), Nanoseconds(0));
  EXPECT_FALSE(ack.owed());
  ack.on_arrival(Instant{1000}, false);
  ack.on_arrival(Instant{1200}, false);
  EXPECT_TRUE(ack.owed());
  EXPECT_FALSE(ack.due(Instant{1499}));
  EXPECT_TRUE(ack.due(Instant{1500}));
  ack.on_sent();
  EXPECT_FALSE(ack.owed());
  EXPECT_EQ(ack.due_at(), kNever);
}

TEST(DelayedAck, Ack_afterManyArrivalsOrARequest_isDueAtOnce) {
  DelayedAck ack(Nanoseconds(500), Nanoseconds(0));
  for (std::uint32_t i = 1; i < DelayedAck::kEvery; ++i) ack.on_arrival(Instant{1}, false);
  EXPECT_FALSE(ack.due(Instant{1}));
  ack.on_arrival(Instant{1}, false);
  EXPECT_TRUE(ack.due(Instant{1}));
  ack.on_sent();
  ack.on_arrival(Instant{2}, true);
  EXPECT_TRUE(ack.due(Instant{2}));
  EXPECT_TRUE(ack.reports_arrival_at_once());
}

TEST(DelayedAck, AckOfAMessage_waitsForAReplyOnlyAfterPromptReplies) {
  DelayedAck ack(Nanoseconds(500), Nanoseconds(100));
  const auto replies_to = [&ack](std::int64_t at, std::int64_t after) {
    ack.on_message(Instant{at});
    const bool waits = !ack.due(Instant{at});
    ack.on_new_frame(Instant{at + after});
    ack.on_sent();
    return waits;
  };
  for (std::uint32_t i = 0; i < DelayedAck::kPromptReplies; ++i)
    EXPECT_FALSE(replies_to(1000 * i, 99));
  EXPECT_TRUE(replies_to(10'000, 99));
  EXPECT_TRUE(replies_to(20'000, 100)) << "this reply is late";
  EXPECT_FALSE(replies_to(30'000, 1));
  for (std::uint32_t i = 1; i < DelayedAck::kPromptReplies; ++i) replies_to(40'000 + 1000 * i, 1);
  ack.on_message(Instant{50'000});
  EXPECT_EQ(ack.due_at(), Instant{50'100});
  ack.on_message(Instant{50'010});
  EXPECT_TRUE(ack.due(Instant{50'010})) << "the first message has had no reply";
}

TEST(DelayedAck, AckAfterTheDelay_orWithoutANewFrame_isNoRoundTripSample) {
  DelayedAck ack(Nanoseconds(500), Nanoseconds(0));
  ack.send_at_once();
  EXPECT_TRUE(ack.due(Instant{0}));
  EXPECT_FALSE(ack.reports_arrival_at_once());
  ack.on_sent();
  ack.on_arrival(Instant{1}, false);
  EXPECT_TRUE(ack.due(Instant{501}));
  EXPECT_FALSE(ack.reports_arrival_at_once());
}

TEST(PeerTimeout, PeerIsLost_whenAPingHasHadNoAnswerForTheTimeout) {
  PeerTimeout timeout(Nanoseconds(1000));
  timeout.on_heard(Instant{100});
  EXPECT_FALSE(timeout.expired(Instant{99'999}));
  timeout.on_asked(Instant{5000});
  timeout.on_asked(Instant{5700});
  EXPECT_EQ(timeout.expires_at(), Instant{6000});
  EXPECT_FALSE(timeout.expired(Instant{5999}));
  EXPECT_TRUE(timeout.expired(Instant{6000}));
  timeout.on_heard(Instant{5900});
  EXPECT_FALSE(timeout.expired(Instant{99'999}));
}

TEST(PeerTimeout, NewWait_doesNotCountEarlierPings) {
  PeerTimeout timeout(Nanoseconds(1000));
  timeout.on_asked(Instant{0});
  timeout.begin(Instant{900});
  EXPECT_EQ(timeout.expires_at(), kNever);
  EXPECT_EQ(timeout.ping_at(), Instant{1100});
}

TEST(PeerTimeout, SilentPeerIsPingedLongBeforeItIsLost) {
  PeerTimeout timeout(Nanoseconds(1000));
  timeout.begin(Instant{0});
  timeout.on_timer(Instant{199});
  EXPECT_FALSE(timeout.ping_wanted());
  timeout.on_timer(timeout.ping_at());
  EXPECT_TRUE(timeout.ping_wanted());
  timeout.on_asked(Instant{200});
  EXPECT_FALSE(timeout.ping_wanted());
}

/// A response queue that answers READs of a region of 900 bytes in frames of at most 512 bytes.
class Responses : public testing::Test {
 protected:
  Responses() : key_(memory_.add(region_).value().key) {}

  /// Queues the answer to a READ of this many bytes.
  void read(std::uint64_t bytes) {
    std::array<std::byte, kRcReadRangeBytes> range;
    encode_range({7, key_, 0, bytes}, range.data());
    RcFrame request;
    request.kind = RcKind::read_request;
    request.count = 1;
    request.payload = range;
    queue_.add_reads(request);
  }
  FrameRecord cut(bool undelivered = false) {
    FrameRecord record;
    queue_.cut(undelivered, record);
    return record;
  }

  std::array<std::byte, 900> region_{};
  MemoryTable memory_;
  std::uint64_t key_;
  RcCounters counters_;
  ResponseQueue queue_{512, memory_, counters_};
};

TEST_F(Responses, AnswerIsCutIntoFramesOfFullLengthAndARest) {
  read(region_.size());
  const FrameRecord first = cut();
  EXPECT_EQ(first.kind, RcKind::read_response);
  EXPECT_EQ(first.bytes, 512 - kRcReadResponseHeaderBytes);
  const FrameRecord second = cut();
  EXPECT_EQ(second.position, first.bytes);
  EXPECT_EQ(first.bytes + second.bytes, region_.size());
  EXPECT_TRUE(queue_.empty());
}

TEST_F(Responses, RangeBeyondTheRegionIsRefused) {
  read(region_.size() + 1);
  EXPECT_EQ(cut().kind, RcKind::refused);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(counters_.refused_operations, 1u);
}

TEST_F(Responses, ReadOverAPathThatLosesLongFrames_isRefusedWithCodePeerFailed) {
  read(region_.size());
  FrameRecord record = cut(true);
  EXPECT_TRUE(queue_.empty());
  RcFrame out;
  out.kind = record.kind;
  OutgoingFrame frame;
  queue_.fill(true, record, out, frame);
  EXPECT_EQ(out.kind, RcKind::refused);
  EXPECT_EQ(out.operation, 7u);
  EXPECT_EQ(refusal_code(out), Code::peer_failed);
}

// A peer of this host can change a frame in shared memory after the frame was decoded.
TEST(FrameReceiver, EarlyFrame_thatChangesAfterItWasDecoded_isRejected) {
  constexpr Rank kPeer{1};
  constexpr std::uint32_t kFirst = 5;
  const RcConfig config;
  MemoryTable memory;
  RcCounters counters;
  WorkQueue works(kPeer, config, 0);
  ResponseQueue responses(config.max_frame_bytes, memory, counters);
  FrameReceiver receiver(kPeer, config, kFirst, memory, counters, works, responses);
  CompletionQueue completions;
  const auto message = [](std::uint32_t sequence) {
    RcFrame frame;
    frame.kind = RcKind::send;
    frame.sequence = sequence;
    frame.message_bytes = 100;
    std::vector<std::byte> bytes(kRcHeaderMax);
    bytes.resize(encode(frame, bytes.data()) + frame.message_bytes);
    return bytes;
  };
  std::vector<std::byte> bytes = message(kFirst + 1);
  const std::optional<RcFrame> frame = decode_rc(bytes);
  ASSERT_TRUE(frame);
  const std::byte kind = bytes[0];
  const std::vector<std::byte> kinds{std::byte{0xff}, static_cast<std::byte>(RcKind::read_request),
                                     static_cast<std::byte>(RcKind::empty)};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    bytes[0] = kinds[i];
    EXPECT_FALSE(receiver.on_frame(Instant{}, *frame, bytes, completions));
    EXPECT_EQ(counters.rejected_malformed, i + 1);
    EXPECT_FALSE(receiver.window().received(kFirst + 1));
  }
  bytes[0] = kind;
  EXPECT_TRUE(receiver.on_frame(Instant{}, *frame, bytes, completions)) << "this opens a gap";
  const std::vector<std::byte> before = message(kFirst);
  EXPECT_FALSE(receiver.on_frame(Instant{}, *decode_rc(before), before, completions));
  EXPECT_EQ(receiver.window().expected(), kFirst + 2);
  EXPECT_EQ(completions.size(), 2u);
}

TEST_F(Responses, RetransmittedAnswer_afterDeregistration_becomesARefusal) {
  read(100);
  FrameRecord record = cut();
  ASSERT_TRUE(memory_.remove(MemoryKey{key_}));
  RcFrame out;
  out.kind = record.kind;
  OutgoingFrame frame;
  queue_.fill(false, record, out, frame);
  EXPECT_EQ(out.kind, RcKind::refused);
  EXPECT_TRUE(frame.payload.empty());
  EXPECT_EQ(refusal_code(out), Code::invalid_argument);
}

}  // namespace
}  // namespace tutti::device::rc
