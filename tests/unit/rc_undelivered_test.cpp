// Tests a path that loses every long frame while ACKs and other short frames pass, as with a
// firewall or a switch port whose MTU is smaller than that of the hosts.
#include <gtest/gtest.h>

#include "rc_harness.hpp"

namespace tutti::device::rc::test {
namespace {

constexpr Nanoseconds kPeerTimeout{3'000'000'000};
constexpr std::uint32_t kOverhead = 60;
constexpr std::size_t kLongestThatPasses = 600;

RcConfig config_of(Nanoseconds peer_timeout = kPeerTimeout) {
  RcConfig config;
  config.peer_timeout = peer_timeout;
  config.overhead_bytes = kOverhead;
  return config;
}

const std::uint32_t kPacketBytes = kOverhead + RcConfig().max_frame_bytes;

std::function<bool(std::size_t, const Bytes&)> drop_long_frames() {
  return [](std::size_t, const Bytes& bytes) { return bytes.size() <= kLongestThatPasses; };
}

/// Runs until `end` reports a failure, and returns the completion that reports it.
Completion failure_at(Pair& pair, std::size_t end) {
  const Instant begin = pair.now();
  EXPECT_TRUE(pair.run([&] { return !pair[end].of(Opcode::failure).empty(); },
                       kPeerTimeout + kPeerTimeout / 10));
  EXPECT_GE(pair.now() - begin, kPeerTimeout);
  const auto failures = pair[end].of(Opcode::failure);
  return failures.empty() ? Completion() : failures[0].completion;
}

void expect_undelivered(const Completion& failure, std::size_t peer) {
  EXPECT_EQ(failure.code, Code::peer_failed);
  EXPECT_EQ(index(failure.peer), peer);
  EXPECT_EQ(failure.undelivered_bytes, kPacketBytes);
}

TEST(RcUndelivered, UndeliveredMessage_toAPeerThatWaitsForNothing_isReported) {
  Pair pair(1, {}, config_of());
  pair.filter = drop_long_frames();
  Bytes message = random_bytes(pair.random(), 5000);
  ASSERT_TRUE(pair.post(0, send_of(message)).ok());
  expect_undelivered(failure_at(pair, 0), 1);
  EXPECT_FALSE(pair.channel(0).failed());
  EXPECT_TRUE(pair[1].of(Opcode::failure).empty());
}

TEST(RcUndelivered, UndeliveredWrite_amongShortMessagesBothWays_isReported) {
  Pair pair(2, {}, config_of());
  pair.filter = drop_long_frames();
  Bytes target(1 << 20);
  const MemoryKey key = pair[1].memory.add(target).value();
  Bytes data = random_bytes(pair.random(), target.size());
  Bytes note = random_bytes(pair.random(), 40);
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, data, key)).ok());
  for (int i = 0; i < 200 && pair[0].of(Opcode::failure).empty(); ++i) {
    ASSERT_TRUE(pair.post(0, send_of(note)).ok());
    ASSERT_TRUE(pair.post(1, send_of(note)).ok());
    pair.run_for(Nanoseconds(20'000'000));
  }
  const auto failures = pair[0].of(Opcode::failure);
  ASSERT_EQ(failures.size(), 1u);
  expect_undelivered(failures[0].completion, 1);
  EXPECT_LT(failures[0].at, Instant{1'000'000'000} + kPeerTimeout + kPeerTimeout / 10);
}

TEST(RcUndelivered, UndeliveredAnswerToARead_isReportedAtBothEnds) {
  Pair pair(3, {}, config_of());
  pair.filter = drop_long_frames();
  Bytes source = random_bytes(pair.random(), 1 << 20);
  const MemoryKey key = pair[1].memory.add(source).value();
  Bytes into(source.size());
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::read, into, key)).ok());
  expect_undelivered(failure_at(pair, 1), 0);
  ASSERT_TRUE(pair.run([&] { return !pair[0].of(Opcode::read).empty(); }, Nanoseconds(50'000'000)));
  const Completion read = pair[0].of(Opcode::read)[0].completion;
  EXPECT_EQ(read.code, Code::peer_failed);
  EXPECT_EQ(read.undelivered_bytes, kPacketBytes);
}

// The path is cut in one direction: all frames of end 0 are lost, but those of end 1 arrive.
TEST(RcUndelivered, OneWayCut_requestsMulticastSignsOfLife_untilTheCutIsReported) {
  Pair pair(9, {}, config_of());
  pair.filter = [](std::size_t from, const Bytes&) { return from != 0; };
  Bytes note = random_bytes(pair.random(), 40);
  ASSERT_TRUE(pair.post(0, send_of(note)).ok());
  pair.channel(1).watch(true, pair.now());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(pair.post(1, send_of(note)).ok());
    pair.run_for(kPeerTimeout / 10);
    // The multicast of end 0 still arrives, so end 1 keeps hearing its peer.
    pair.channel(1).on_heard(pair.now());
  }
  EXPECT_TRUE(pair.channel(0).unanswered(pair.now()));
  for (int i = 0; i < 20 && pair[0].of(Opcode::failure).empty(); ++i) {
    pair.run_for(kPeerTimeout / 10);
    pair.channel(1).on_heard(pair.now());
  }
  ASSERT_EQ(pair[0].of(Opcode::failure).size(), 1u);
  pair.run_for(kPeerTimeout / 2);
  EXPECT_FALSE(pair.channel(0).unanswered(pair.now()));
  EXPECT_FALSE(pair.channel(0).failed());
}

TEST(RcUndelivered, SilenceAsShortAsAQueueDelay_requestsNoSignOfLife) {
  Pair pair(9, {}, config_of());
  pair.filter = [](std::size_t from, const Bytes&) { return from != 0; };
  Bytes note = random_bytes(pair.random(), 40);
  ASSERT_TRUE(pair.post(0, send_of(note)).ok());
  pair.run_for(kPeerTimeout / 25);
  EXPECT_GE(pair.channel(0).window().timeouts_in_a_row(), 3u);
  EXPECT_FALSE(pair.channel(0).unanswered(pair.now()));
  pair.run_for(kPeerTimeout / 25);
  EXPECT_TRUE(pair.channel(0).unanswered(pair.now()));
}

TEST(RcUndelivered, PathTest_amongShortMessages_isReportedOnlyIfItDoesNotArrive) {
  for (const bool lossy : {false, true}) {
    Pair pair(7, {}, config_of());
    if (lossy) pair.filter = drop_long_frames();
    Bytes note = random_bytes(pair.random(), 40);
    pair.channel(0).watch(true, pair.now());
    pair.channel(0).test_path();
    for (int i = 0; i < 200 && pair[0].of(Opcode::failure).empty(); ++i) {
      ASSERT_TRUE(pair.post(0, send_of(note)).ok());
      ASSERT_TRUE(pair.post(1, send_of(note)).ok());
      pair.run_for(Nanoseconds(20'000'000));
    }
    const auto failures = pair[0].of(Opcode::failure);
    ASSERT_EQ(failures.size(), lossy ? 1u : 0u);
    if (lossy) expect_undelivered(failures[0].completion, 1);
  }
}

// The long frame that tests the path of this connection is lost. A short notice about another
// failure, which is posted later, must still arrive.
TEST(RcUndelivered, ShortMessage_postedAfterAbandon_arrivesDespiteALostPathTest) {
  Pair pair(12, {}, config_of());
  pair.filter = drop_long_frames();
  pair.channel(0).watch(true, pair.now());
  pair.channel(0).test_path();
  pair.run_for(Nanoseconds(500'000'000));
  pair.channel(0).abandon();
  Bytes news = random_bytes(pair.random(), 30);
  ASSERT_TRUE(pair.post(0, send_of(news)).ok());
  EXPECT_TRUE(
      pair.run([&] { return !pair[1].of(Opcode::receive).empty(); }, Nanoseconds(100'000'000)));
}

TEST(RcUndelivered, ShortMessages_afterLongOnesWereAbandoned_arriveAtOnce) {
  Pair pair(4, {}, config_of());
  pair.filter = drop_long_frames();
  Bytes target(1 << 20);
  const MemoryKey key = pair[1].memory.add(target).value();
  Bytes data = random_bytes(pair.random(), target.size());
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, data, key)).ok());
  expect_undelivered(failure_at(pair, 0), 1);
  pair.channel(0).abandon();
  Bytes news = random_bytes(pair.random(), 30);
  ASSERT_TRUE(pair.post(0, send_of(news)).ok());
  ASSERT_TRUE(
      pair.run([&] { return !pair[1].of(Opcode::receive).empty(); }, Nanoseconds(50'000'000)));
  EXPECT_EQ(pair[1].of(Opcode::receive)[0].payload, news);
  pair.run_for(3 * kPeerTimeout);
  EXPECT_EQ(pair[0].of(Opcode::failure).size(), 1u);
}

/// Posts messages, WRITEs and READs of a few frames each in both directions. Adds 1 to `complete`
/// if neither end declares its peer lost.
void exchange_under_loss(std::uint64_t seed, Nanoseconds peer_timeout, int& complete) {
  Pair pair(seed, {.loss = 0.3}, config_of(peer_timeout));
  Bytes memory[2] = {Bytes(64 * 1024), Bytes(64 * 1024)};
  MemoryKey keys[2];
  for (std::size_t end = 0; end < 2; ++end) keys[end] = pair[end].memory.add(memory[end]).value();
  std::vector<Bytes> data;
  for (int i = 0; i < 6; ++i) data.push_back(random_bytes(pair.random(), 1 + i * 3000));
  for (int round = 0; round < 40; ++round) {
    for (std::size_t end = 0; end < 2; ++end) {
      Bytes& bytes = data[static_cast<std::size_t>(round) % 3 + 3 * end];
      const Opcode opcode = round % 2 == 0 ? Opcode::write : Opcode::read;
      ASSERT_TRUE(pair.post(end, one_sided(opcode, bytes, keys[1 - end])).ok());
      ASSERT_TRUE(pair.post(end, send_of(bytes)).ok());
    }
    ASSERT_TRUE(pair.run_until_quiet()) << "seed " << seed << " round " << round;
    for (std::size_t end = 0; end < 2; ++end) {
      for (const Recorded& failure : pair[end].of(Opcode::failure)) {
        ASSERT_EQ(failure.completion.undelivered_bytes, 0u) << "seed " << seed;
      }
    }
    // At this loss rate, an end may hear nothing for the whole peer timeout and declare its peer
    // lost. The exchange then ends early.
    if (pair.channel(0).failed() || pair.channel(1).failed()) return;
  }
  ++complete;
}

TEST(RcUndelivered, ThirtyPercentRandomLoss_isNotReported) {
  constexpr int kSeeds = 60;
  for (const Nanoseconds peer_timeout : {kPeerTimeout, kPeerTimeout / 3}) {
    int complete = 0;
    for (int seed = 1; seed <= kSeeds; ++seed)
      exchange_under_loss(static_cast<std::uint64_t>(seed), peer_timeout, complete);
    EXPECT_GT(complete, kSeeds / 2) << "peer timeout " << peer_timeout.count() << " ns";
  }
}

TEST(RcUndelivered, SlowReceiver_thatTakesLongerThanTheTimeout_isNotReported) {
  Pair pair(8, {.bytes_per_nanosecond = 0.0002}, config_of());
  Bytes target(1 << 20);
  const MemoryKey key = pair[1].memory.add(target).value();
  Bytes data = random_bytes(pair.random(), target.size());
  const Instant begin = pair.now();
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, data, key)).ok());
  const auto done = [&] { return !pair[0].of(Opcode::write).empty(); };
  ASSERT_TRUE(pair.run(done, 10 * kPeerTimeout));
  EXPECT_EQ(target, data);
  EXPECT_GT(pair.now() - begin, kPeerTimeout);
  EXPECT_TRUE(pair[0].of(Opcode::failure).empty());
}

TEST(RcUndelivered, PeerStoppedForLessThanTheTimeout_isNotReported) {
  Pair pair(5, {}, config_of());
  Bytes target(1 << 20);
  const MemoryKey key = pair[1].memory.add(target).value();
  Bytes data = random_bytes(pair.random(), target.size());
  for (int pause = 0; pause < 4; ++pause) {
    ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, data, key)).ok());
    pair.run_for(Nanoseconds(50'000));
    pair.filter = [](std::size_t, const Bytes&) { return false; };
    pair.run_for(kPeerTimeout - Nanoseconds(300'000'000));
    pair.filter = nullptr;
    ASSERT_TRUE(pair.run_until_quiet());
    EXPECT_TRUE(pair[0].of(Opcode::failure).empty());
  }
  EXPECT_EQ(target, data);
}

// The path loses even messages that are short enough to be copied when they are posted. Only frames
// of at most 200 bytes pass.
TEST(RcUndelivered, AbandonedCopiedMessages_doNotDelayAFailureNotice) {
  for (const bool reported_first : {true, false}) {
    Pair pair(8, {}, config_of());
    pair.filter = [](std::size_t, const Bytes& bytes) { return bytes.size() <= 200; };
    for (const std::size_t bytes : {kInlineSendBytes, std::size_t{180}, std::size_t{40}}) {
      Bytes message = random_bytes(pair.random(), bytes);
      ASSERT_TRUE(pair.post(0, send_of(message)).ok());
    }
    if (reported_first) {
      EXPECT_EQ(failure_at(pair, 0).code, Code::peer_failed);
    }
    pair.channel(0).abandon();
    Bytes notice = random_bytes(pair.random(), 40);
    ASSERT_TRUE(pair.post(0, send_of(notice)).ok());
    ASSERT_TRUE(pair.run_until_quiet());
    ASSERT_EQ(pair[1].of(Opcode::receive).size(), 1u) << "reported first: " << reported_first;
    EXPECT_EQ(pair[1].of(Opcode::receive)[0].payload, notice);
  }
}

TEST(RcUndelivered, LongFramesThatPassAgain_beforeThePeerTimeout_areNotReported) {
  Pair pair(6, {}, config_of());
  pair.filter = drop_long_frames();
  Bytes message = random_bytes(pair.random(), 5000);
  ASSERT_TRUE(pair.post(0, send_of(message)).ok());
  pair.run_for(kPeerTimeout - Nanoseconds(250'000'000));
  pair.filter = nullptr;
  pair.run_for(3 * kPeerTimeout);
  EXPECT_TRUE(pair[0].of(Opcode::failure).empty());
  ASSERT_EQ(pair[1].of(Opcode::receive).size(), 1u);
  EXPECT_EQ(pair[1].of(Opcode::receive)[0].payload, message);
}

TEST(RcUndelivered, FramesStillInTheSendQueue_areNotReported) {
  MemoryTable memory;
  RcCounters counters;
  const RcConfig config = config_of();
  RcChannel channel(rank_of(1), config, memory, counters);
  End sink;
  Bytes message(5000);
  Instant now{1'000'000'000};
  ASSERT_TRUE(channel.post(now, send_of(message)).ok());
  RcFrame answer;
  answer.kind = RcKind::ack;
  std::byte bytes[kRcHeaderMax];
  const std::size_t size = encode(answer, bytes);
  for (const Instant end = now + 3 * kPeerTimeout; now < end; now = now + Nanoseconds(1'000'000)) {
    channel.on_frame(now, std::span(bytes).first(size), sink);
    if (channel.next_deadline() <= now) channel.on_timer(now, sink);
    OutgoingFrame frame;
    // take_back() returns the frame to the channel, as if the send queue were full, so no frame
    // leaves.
    if (channel.next_frame(now, frame)) channel.take_back(frame);
  }
  EXPECT_GT(counters.frames_received, 5000u);
  EXPECT_TRUE(sink.completions.empty());
}

}  // namespace
}  // namespace tutti::device::rc::test
