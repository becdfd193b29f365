// Tests the reliable channel over links that lose, duplicate and reorder.
#include "device/rc/rc_channel.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>

#include "rc_harness.hpp"

namespace tutti::device::rc {
namespace {

using namespace test;  // NOLINT: namespace `test` holds only the harness of these tests
using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(RcChannel, UnusableSettingsAreRefused) {
  EXPECT_TRUE(check(RcConfig{}).ok());
  RcConfig tiny;
  tiny.max_frame_bytes = 100;
  EXPECT_EQ(check(tiny).code(), Code::invalid_argument);
  RcConfig lazy;
  lazy.ack_delay = lazy.rto_min;
  EXPECT_EQ(check(lazy).code(), Code::invalid_argument);
  RcConfig hasty;
  hasty.peer_timeout = Nanoseconds(1);
  EXPECT_EQ(check(hasty).code(), Code::invalid_argument);
}

TEST(RcChannel, ImpossibleWorkIsRefused) {
  RcConfig config;
  config.max_queued_requests = 3;
  Pair pair(1, {}, config);
  Bytes longer(config.max_message_bytes + 1);
  EXPECT_EQ(pair.post(0, send_of(longer)).code(), Code::invalid_argument);
  WorkRequest wrong;
  wrong.opcode = Opcode::receive;
  EXPECT_EQ(pair.post(0, wrong).code(), Code::invalid_argument);
  Bytes message(10);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pair.post(0, send_of(message)).ok());
  EXPECT_EQ(pair.post(0, send_of(message)).code(), Code::resource_exhausted);
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_TRUE(pair.post(0, send_of(message)).ok());
}

TEST(RcChannel, ShortSendsAreCopiedAndLongOnesAreNot) {
  Pair pair(2);
  Bytes brief(kInlineSendBytes, std::byte{1});
  Bytes large(kInlineSendBytes + 1, std::byte{1});
  ASSERT_TRUE(pair.post(0, send_of(brief)).ok());
  ASSERT_TRUE(pair.post(0, send_of(large)).ok());
  std::fill(brief.begin(), brief.end(), std::byte{2});
  OutgoingFrame frame;
  ASSERT_TRUE(pair.channel(0).next_frame(pair.now(), frame));
  EXPECT_EQ(frame.payload[0], std::byte{1});
  ASSERT_TRUE(pair.channel(0).next_frame(pair.now(), frame));
  EXPECT_EQ(frame.payload.data(), large.data());
}

// Operations of all kinds run in both directions at once, and the results are compared with the
// expected data.
class Traffic {
 public:
  Traffic(Pair& pair, std::size_t end, std::size_t requests) : pair_(pair), end_(end) {
    region_.resize(kRegion);
    served_ = random_bytes(pair.random(), kRegion);
    expected_region_.resize(kRegion);
    auto& table = pair[1 - end].memory;
    region_key_ = table.add(region_).value();
    served_key_ = table.add(served_).value();
    for (std::size_t i = 0; i < requests; ++i) post(i);
  }

  void verify() {
    const auto& done = pair_[end_].completions;
    std::vector<std::uint64_t> own;
    for (const Recorded& each : done) {
      if (each.completion.opcode == Opcode::receive) continue;
      EXPECT_EQ(each.completion.code, Code::ok);
      own.push_back(each.completion.work_id);
    }
    EXPECT_EQ(own, signaled_) << "work must complete once and in the order posted";
    const auto arrived = pair_[1 - end_].of(Opcode::receive);
    ASSERT_EQ(arrived.size(), arrivals_.size());
    for (std::size_t i = 0; i < arrived.size(); ++i) {
      EXPECT_EQ(arrived[i].payload, arrivals_[i].payload) << i;
      EXPECT_EQ(arrived[i].completion.immediate, arrivals_[i].completion.immediate) << i;
    }
    EXPECT_TRUE(region_ == expected_region_);
    for (const auto& [offset, buffer] : reads_) {
      EXPECT_TRUE(std::equal(buffer->begin(), buffer->end(), served_.begin() + offset));
    }
  }

 private:
  static constexpr std::size_t kRegion = 1 << 18;

  std::size_t random_size() {
    const std::size_t most[] = {1, 300, 3000, 16384};
    return pair_.random()() % (most[pair_.random()() % 4] + 1);
  }
  void post(std::size_t i) {
    const std::size_t size = random_size();
    const std::size_t offset = pair_.random()() % (kRegion - size + 1);
    buffers_.push_back(std::make_unique<Bytes>(random_bytes(pair_.random(), size)));
    Bytes& bytes = *buffers_.back();
    WorkRequest request = one_sided(Opcode::send, bytes, region_key_, offset, i);
    request.signaled = pair_.random()() % 2 == 0;
    request.opcode = static_cast<Opcode>(pair_.random()() % 4);
    if (request.opcode == Opcode::send) {
      arrivals_.push_back({{}, bytes, {}});
    } else if (request.opcode == Opcode::read) {
      request.remote_key = served_key_;
      reads_.emplace_back(offset, &bytes);
    } else {
      std::copy(bytes.begin(), bytes.end(), expected_region_.begin() + offset);
    }
    if (request.opcode == Opcode::write_immediate) {
      request.immediate = pair_.random()();
      arrivals_.push_back({});
      arrivals_.back().completion.immediate = request.immediate;
    }
    if (request.signaled || request.opcode == Opcode::read) signaled_.push_back(i);
    ASSERT_TRUE(pair_.post(end_, request).ok());
  }

  Pair& pair_;
  std::size_t end_;
  Bytes region_;
  Bytes served_;
  Bytes expected_region_;
  MemoryKey region_key_;
  MemoryKey served_key_;
  std::vector<std::unique_ptr<Bytes>> buffers_;
  std::vector<std::uint64_t> signaled_;
  std::vector<Recorded> arrivals_;
  std::vector<std::pair<std::size_t, Bytes*>> reads_;
};

struct Weather {
  const char* name;
  double loss;
  double duplication;
  int jitter_us;
  int bound_ms;  ///< time limit in ms for some 1000 frames each way, which take 0.8 ms at line rate
};

class RcTraffic : public testing::TestWithParam<Weather> {};

TEST_P(RcTraffic, DataOverAFaultyLink_arrivesOnceInOrderAndIntact) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    LinkOptions options;
    options.loss = GetParam().loss;
    options.duplication = GetParam().duplication;
    options.jitter = microseconds(GetParam().jitter_us);
    RcConfig config;
    // First sequence number, so high that the numbers wrap during the test.
    const std::uint32_t first = 0xffff'ffff - static_cast<std::uint32_t>(seed) * 40;
    config.unexpected_buffers = seed % 2 == 0 ? 256 : 3;
    Pair pair(seed, options, config, {first, first, 0});
    const Instant start = pair.now();
    Traffic there(pair, 0, 250);
    Traffic back(pair, 1, 250);
    ASSERT_TRUE(pair.run_until_quiet());
    there.verify();
    back.verify();
    EXPECT_LT(pair.now() - start, milliseconds(GetParam().bound_ms));
    EXPECT_EQ(pair[0].counters.rejected_malformed + pair[1].counters.rejected_malformed, 0u);
    EXPECT_EQ(options.loss > 0 || options.jitter.count() > 0, pair[0].counters.frames_resent > 0);
    EXPECT_LE(options.duplication > 0, pair[0].counters.frames_duplicate > 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Weather, RcTraffic,
    testing::Values(Weather{"clear", 0, 0, 0, 1}, Weather{"loss1", 0.01, 0, 0, 8},
                    Weather{"loss10", 0.1, 0.02, 30, 400}, Weather{"loss30", 0.3, 0.05, 0, 4000},
                    Weather{"reordered", 0, 0.1, 200, 200}, Weather{"storm", 0.3, 0.3, 300, 1000}),
    [](const auto& weather) { return std::string(weather.param.name); });

TEST(RcChannel, LinkWithoutFaults_causesNoRetransmission) {
  Pair pair(3);
  Traffic there(pair, 0, 400);
  Traffic back(pair, 1, 400);
  ASSERT_TRUE(pair.run_until_quiet());
  for (std::size_t end : {0, 1}) {
    EXPECT_EQ(pair[end].counters.frames_resent, 0u);
    EXPECT_EQ(pair[end].counters.frames_duplicate, 0u);
    EXPECT_EQ(pair[end].counters.timeouts, 0u);
  }
}

class RcLength : public testing::TestWithParam<std::size_t> {};

TEST_P(RcLength, WritesAndReadsOfAnyLengthMoveTheRightBytes) {
  LinkOptions options;
  options.loss = 0.02;
  Pair pair(GetParam() + 1, options);
  Bytes region(GetParam());
  const MemoryKey key = pair[1].memory.add(region).value();
  Bytes source = random_bytes(pair.random(), GetParam());
  Bytes target(GetParam());
  WorkRequest write = one_sided(Opcode::write_immediate, source, key, 0, 1);
  write.immediate = 99;
  ASSERT_TRUE(pair.post(0, write).ok());
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::read, target, key, 0, 2)).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_TRUE(region == source);
  EXPECT_TRUE(target == source);
  ASSERT_EQ(pair[0].completions.size(), 2u);
  EXPECT_EQ(pair[0].completions[1].completion.code, Code::ok);
  ASSERT_EQ(pair[1].completions.size(), 1u);
  EXPECT_EQ(pair[1].completions[0].completion.immediate, 99u);
  EXPECT_EQ(pair[1].counters.read_bytes_served, GetParam());
}

// The sizes lie around the payload of one frame (1400 bytes in a WRITE, 1416 bytes in the answer to
// a READ) and go up to 1 MiB.
INSTANTIATE_TEST_SUITE_P(Lengths, RcLength,
                         testing::Values(0, 1, 1391, 1392, 1393, 1399, 1400, 1401, 1416, 1417, 2800,
                                         65536, 1 << 20));

TEST(RcChannel, FramesOfALongWriteHaveEqualSizeExceptTheLast) {
  Pair pair(4);
  Bytes region(100'000);
  const MemoryKey key = pair[1].memory.add(region).value();
  std::vector<std::size_t> sizes[2];
  pair.filter = [&](std::size_t from, const Bytes& bytes) {
    if (kind_of(bytes) == RcKind::write || kind_of(bytes) == RcKind::read_response) {
      sizes[from].push_back(bytes.size());
    }
    return true;
  };
  Bytes local(region.size());
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, local, key)).ok());
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::read, local, key)).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  for (const auto& seen : sizes) {
    ASSERT_GT(seen.size(), 60u);
    for (std::size_t i = 0; i + 1 < seen.size(); ++i)
      EXPECT_EQ(seen[i], RcConfig{}.max_frame_bytes);
    EXPECT_LT(seen.back(), RcConfig{}.max_frame_bytes);
  }
}

TEST(RcChannel, ReadsPostedTogetherShareRequestFrames) {
  Pair pair(5);
  Bytes region = random_bytes(pair.random(), 400 * 64);
  const MemoryKey key = pair[1].memory.add(region).value();
  std::size_t requests = 0;
  pair.filter = [&](std::size_t, const Bytes& bytes) {
    requests += kind_of(bytes) == RcKind::read_request ? 1 : 0;
    return true;
  };
  Bytes local(region.size());
  // More READs are posted than may be open at once, so that some of them must wait.
  for (std::uint64_t i = 0; i < 400; ++i) {
    const auto part = std::span(local).subspan(i * 64, 64);
    ASSERT_TRUE(pair.post(0, one_sided(Opcode::read, part, key, i * 64, i)).ok());
  }
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_TRUE(local == region);
  EXPECT_EQ(pair[0].completions.size(), 400u);
  EXPECT_GE(requests, 400 / kRcMaxReadRanges);
  EXPECT_LE(requests, 400u / 2);
}

TEST(RcChannel, RequestsWithBadKeysOrRanges_fail_andTheOthersSucceed) {
  Pair pair(6);
  Bytes region(5000, std::byte{7});
  const MemoryKey key = pair[1].memory.add(region).value();
  Bytes gone(100);
  const MemoryKey old = pair[1].memory.add(gone).value();
  ASSERT_TRUE(pair[1].memory.remove(old));
  EXPECT_FALSE(pair[1].memory.remove(old));
  Bytes local(4000, std::byte{9});
  Bytes message(3, std::byte{5});
  const WorkRequest requests[] = {
      one_sided(Opcode::write, local, {12345}, 0, 1),
      // A write whose last frame reaches beyond the region.
      one_sided(Opcode::write, local, key, 1001, 2),
      one_sided(Opcode::read, local, old, 0, 3),
      one_sided(Opcode::read, local, key, UINT64_MAX, 4),
      one_sided(Opcode::write_immediate, local, key, 4999, 5),
      send_of(message, 6),
      one_sided(Opcode::write, std::span(local).first(10), key, 0, 7),
  };
  for (WorkRequest request : requests) {
    // Unsignaled requests raise a completion only if they fail.
    request.signaled = request.work_id >= 6;
    ASSERT_TRUE(pair.post(0, request).ok());
  }
  ASSERT_TRUE(pair.run_until_quiet());
  ASSERT_EQ(pair[0].completions.size(), 7u);
  for (const Recorded& each : pair[0].completions) {
    const bool bad = each.completion.work_id <= 5;
    EXPECT_EQ(each.completion.code, bad ? Code::invalid_argument : Code::ok)
        << each.completion.work_id;
  }
  EXPECT_EQ(std::count(region.begin(), region.end(), std::byte{9}), 10)
      << "only the valid write must change the region";
  EXPECT_EQ(std::count(local.begin(), local.end(), std::byte{9}), 4000)
      << "no invalid read may be answered";
  ASSERT_EQ(pair[1].completions.size(), 1u)
      << "the message arrives, but no immediate of a refused write";
  EXPECT_EQ(pair[1].completions[0].payload, message);
  EXPECT_EQ(pair[1].counters.refused_operations, 5u);
  EXPECT_FALSE(pair.channel(0).failed());
}

TEST(RcChannel, Refusals_overALossyReorderingLink_reachTheRequester) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    LinkOptions options;
    options.loss = 0.25;
    options.jitter = microseconds(100);
    Pair pair(seed, options);
    Bytes region(30'000);
    const MemoryKey key = pair[1].memory.add(region).value();
    Bytes local(30'000, std::byte{9});
    for (std::uint64_t i = 0; i < 40; ++i) {
      const bool bad = i % 3 == 0;
      const Opcode opcode = i % 2 == 0 ? Opcode::write_immediate : Opcode::read;
      ASSERT_TRUE(pair.post(0, one_sided(opcode, local, bad ? MemoryKey{1} : key, 0, i)).ok());
    }
    ASSERT_TRUE(pair.run_until_quiet());
    ASSERT_EQ(pair[0].completions.size(), 40u);
    for (std::uint64_t i = 0; i < 40; ++i) {
      EXPECT_EQ(pair[0].completions[i].completion.work_id, i);
      EXPECT_EQ(pair[0].completions[i].completion.code,
                i % 3 == 0 ? Code::invalid_argument : Code::ok);
    }
    EXPECT_EQ(pair[1].completions.size(), 13u) << "immediates of the good writes";
  }
}

TEST(RcChannel, RestOfATransfer_whoseRegionIsDeregistered_isRefused) {
  for (const Opcode opcode : {Opcode::write_immediate, Opcode::read}) {
    LinkOptions options;
    options.loss = 0.05;
    Pair pair(7, options);
    auto region = std::make_unique<Bytes>(1 << 20, std::byte{3});
    const MemoryKey key = pair[1].memory.add(*region).value();
    Bytes local(1 << 20, std::byte{4});
    ASSERT_TRUE(pair.post(0, one_sided(opcode, local, key, 0, 1)).ok());
    pair.run_for(microseconds(200));
    ASSERT_TRUE(pair[0].completions.empty());
    ASSERT_TRUE(pair[1].memory.remove(key));
    region.reset();  // frees the memory, so that a sanitizer detects later use
    ASSERT_TRUE(pair.run_until_quiet());
    ASSERT_EQ(pair[0].completions.size(), 1u);
    EXPECT_EQ(pair[0].completions[0].completion.code, Code::invalid_argument);
    EXPECT_TRUE(pair[1].completions.empty());
  }
}

TEST(RcChannel, AbandonedWork_freesItsMemory_andLaterMessagesAreSent) {
  for (const std::uint64_t begun_us : {0, 30, 200, 2000}) {
    for (const Opcode opcode : {Opcode::write_immediate, Opcode::read, Opcode::send}) {
      LinkOptions options;
      options.loss = 0.05;
      Pair pair(begun_us + 31, options);
      const std::size_t size = opcode == Opcode::send ? 16 << 10 : 1 << 20;
      Bytes region(size, std::byte{3});
      const MemoryKey key = pair[1].memory.add(region).value();
      auto local = std::make_unique<Bytes>(size, std::byte{4});
      for (std::uint64_t id = 1; id <= 3; ++id) {
        WorkRequest request = one_sided(opcode, *local, key, 0, id);
        ASSERT_TRUE(pair.post(0, request).ok());
      }
      pair.run_for(microseconds(begun_us));
      const std::size_t complete = pair[0].completions.size();
      if (begun_us == 0) {
        ASSERT_LT(complete, 3u) << "the test needs work that is left to abandon";
      }
      pair.channel(0).abandon();
      local.reset();  // frees the memory, so that a sanitizer detects later use
      Bytes message(100, std::byte{5});
      ASSERT_TRUE(pair.post(0, send_of(message)).ok());
      ASSERT_TRUE(pair.run_until_quiet());
      const auto& ended = pair[0].completions;
      ASSERT_EQ(ended.size(), 4u);
      for (std::size_t i = complete; i < 3; ++i)
        EXPECT_EQ(ended[i].completion.code, Code::aborted) << i;
      ASSERT_FALSE(pair[1].completions.empty());
      EXPECT_EQ(pair[1].completions.back().payload, message);
    }
  }
}

TEST(RcChannel, ImmediateThatArrivesEarly_isNotRaisedIfItsWriteIsRefused) {
  Pair pair(22);
  Bytes region(2000);
  const MemoryKey key = pair[1].memory.add(region).value();
  bool dropped = false;
  pair.filter = [&](std::size_t, const Bytes& bytes) {
    if (kind_of(bytes) != RcKind::write || dropped) return true;
    dropped = true;
    return false;
  };
  Bytes local(2000, std::byte{1});
  Bytes message(1);
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write_immediate, local, key)).ok());
  ASSERT_TRUE(pair.post(0, send_of(message)).ok());
  pair.run_for(microseconds(40));  // the second frame, with the immediate, has arrived
  ASSERT_TRUE(dropped);
  ASSERT_EQ(region.back(), std::byte{1});
  ASSERT_TRUE(pair[1].memory.remove(key));
  ASSERT_TRUE(pair.run_until_quiet());
  ASSERT_EQ(pair[0].completions.size(), 2u);
  EXPECT_EQ(pair[0].completions[0].completion.code, Code::invalid_argument);
  ASSERT_EQ(pair[1].completions.size(), 1u) << "only the message must arrive";
  EXPECT_EQ(pair[1].completions[0].payload, message);
}

// The WRITE has frames at offsets 0, 1400 and 2800.
TEST(RcChannel, ImmediateThatArrivesEarly_isNotRaisedIfItsWriteIsAbandoned) {
  for (const std::set<std::uint64_t>& lost : {std::set<std::uint64_t>{0}, {1400}, {0, 1400}}) {
    Pair pair(22);
    Bytes region(3500);
    const MemoryKey key = pair[1].memory.add(region).value();
    bool loses = true;
    pair.filter = [&](std::size_t from, const Bytes& bytes) {
      return from != 0 || !loses || !lost.contains(decode_rc(bytes)->offset) ||
             kind_of(bytes) != RcKind::write;
    };
    Bytes local(region.size(), std::byte{1});
    ASSERT_TRUE(pair.post(0, one_sided(Opcode::write_immediate, local, key)).ok());
    pair.run_for(microseconds(200));
    ASSERT_EQ(region.back(), std::byte{1}) << "the last frame has not arrived early";
    ASSERT_EQ(region[*lost.begin()], std::byte{0});
    pair.channel(0).abandon();
    loses = false;
    Bytes next(1, std::byte{2});
    ASSERT_TRUE(pair.post(0, one_sided(Opcode::write_immediate, next, key)).ok());
    ASSERT_TRUE(pair.run_until_quiet());
    ASSERT_EQ(pair[1].completions.size(), 1u) << "only the next WRITE must arrive";
    EXPECT_EQ(region.front(), std::byte{2});
  }
}

// The first message is lost. When it is abandoned, all later requests have already arrived.
TEST(RcChannel, RequestsThatArriveEarly_haveNoEffectIfTheMessageBeforeThemIsAbandoned) {
  Pair pair(24);
  Bytes region(100);
  const MemoryKey key = pair[1].memory.add(region).value();
  std::uint64_t word = 0;
  const MemoryKey word_key =
      pair[1].memory.add(std::as_writable_bytes(std::span(&word, 1))).value();
  bool loses = true;
  pair.filter = [&](std::size_t from, const Bytes& bytes) {
    return from != 0 || !loses || kind_of(bytes) != RcKind::send || decode_rc(bytes)->sequence > 0;
  };
  Bytes lost(300, std::byte{1}), later(20, std::byte{2}), data(100, std::byte{3}), old(8);
  ASSERT_TRUE(pair.post(0, send_of(lost)).ok());
  ASSERT_TRUE(pair.post(0, send_of(later)).ok());
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write_immediate, data, key)).ok());
  WorkRequest add = one_sided(Opcode::fetch_add, old, word_key);
  add.atomic.compare_add = 1;
  ASSERT_TRUE(pair.post(0, add).ok());
  pair.run_for(microseconds(200));
  ASSERT_EQ(region, data) << "the WRITE has not arrived early";
  pair.channel(0).abandon();
  loses = false;
  Bytes next(10, std::byte{4});
  ASSERT_TRUE(pair.post(0, send_of(next)).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  ASSERT_EQ(pair[1].completions.size(), 1u);
  EXPECT_EQ(pair[1].completions[0].payload, next);
  EXPECT_EQ(word, 0u);
}

TEST(RcChannel, ConnectionOfAnAbandonedWrite_ofWhichAPartHasArrived_canClose) {
  Pair pair(25);
  Bytes region(3500);
  const MemoryKey key = pair[1].memory.add(region).value();
  bool loses = true;
  pair.filter = [&](std::size_t from, const Bytes& bytes) {
    return from != 0 || !loses || decode_rc(bytes)->offset != 1400;
  };
  Bytes local(region.size(), std::byte{1});
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, local, key)).ok());
  pair.run_for(microseconds(200));
  ASSERT_EQ(region.front(), std::byte{1});
  pair.channel(0).abandon();
  loses = false;
  Bytes next(10, std::byte{2});
  ASSERT_TRUE(pair.post(0, send_of(next)).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_TRUE(pair.channel(1).resting_position().has_value());
}

// The abandoned operation is longer than the send window, and none of its frames is lost.
TEST(RcChannel, ConnectionOfAbandonedWork_ofWhichAPartIsNotSentYet_canClose) {
  for (const Opcode opcode : {Opcode::send, Opcode::write, Opcode::write_immediate}) {
    RcConfig config;
    config.max_message_bytes = 1'000'000;
    Pair pair(27, {}, config);
    Bytes region(config.max_message_bytes);
    const MemoryKey key = pair[1].memory.add(region).value();
    Bytes local(region.size(), std::byte{1});
    ASSERT_TRUE(pair.post(0, one_sided(opcode, local, key)).ok());
    pair.run_for(microseconds(40));
    const std::uint64_t sent = pair[0].counters.frames_sent;
    ASSERT_TRUE(sent > 0 && sent < 700) << sent << " frames sent; all together are about 720";
    pair.channel(0).abandon();
    ASSERT_TRUE(pair.run_until_quiet());
    EXPECT_LE(pair[0].counters.frames_sent, sent + 2) << "only the empty frame and an ACK";
    ASSERT_EQ(pair[0].completions.size(), 1u);
    EXPECT_EQ(pair[0].completions.front().completion.code, Code::aborted);
    EXPECT_TRUE(pair[1].completions.empty());
    EXPECT_TRUE(pair.channel(1).resting_position().has_value());
  }
}

TEST(RcChannel, ConnectionOfARefusedWrite_canClose) {
  Pair pair(28);
  Bytes local(100);
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, local, MemoryKey{1})).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  ASSERT_EQ(pair[1].counters.refused_operations, 1u);
  EXPECT_TRUE(pair.channel(1).resting_position().has_value());
}

// An empty frame, which tests the path, is lost, so the WRITE behind this frame arrives out of
// order. An ACK still tells the sender that the WRITE has arrived.
TEST(RcChannel, AckedWrite_behindALostFrame_isDeliveredAfterAbandon) {
  Pair pair(26);
  Bytes region(100);
  const MemoryKey key = pair[1].memory.add(region).value();
  bool loses = true;
  pair.filter = [&](std::size_t from, const Bytes& bytes) {
    return from != 0 || !loses || kind_of(bytes) != RcKind::empty;
  };
  pair.channel(0).watch(true, pair.now());
  pair.channel(0).test_path();
  pair.run_for(microseconds(100));
  Bytes data(100, std::byte{3});
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write_immediate, data, key)).ok());
  pair.run_for(microseconds(2'000));
  ASSERT_EQ(pair[0].of(Opcode::write_immediate).size(), 1u);
  ASSERT_TRUE(pair[1].completions.empty());
  pair.channel(0).abandon();
  loses = false;
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(pair[1].of(Opcode::receive).size(), 1u);
}

TEST(RcChannel, PartsOfTwoAbandonedMessages_areNotJoined) {
  Pair pair(23);
  Bytes first(4000, std::byte{1}), second(4000, std::byte{2}), last(10, std::byte{3});
  std::size_t sends = 0;
  bool loses = true;
  pair.filter = [&](std::size_t, const Bytes& bytes) {
    if (!loses || kind_of(bytes) != RcKind::send) return true;
    const std::size_t number = sends++;
    // Each message has three frames. The first message loses all but its first frame, and the
    // second message loses only its first.
    return number == 0 || number == 4 || number == 5;
  };
  ASSERT_TRUE(pair.post(0, send_of(first)).ok());
  ASSERT_TRUE(pair.post(0, send_of(second)).ok());
  pair.run_for(microseconds(100));
  ASSERT_GE(sends, 6u);
  pair.channel(0).abandon();
  loses = false;
  ASSERT_TRUE(pair.post(0, send_of(last)).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  ASSERT_EQ(pair[1].completions.size(), 1u);
  EXPECT_EQ(pair[1].completions[0].payload, last);
}

TEST(RcChannel, DelayedAck_isNoSampleOfTheRoundTripTime) {
  Pair pair(23);
  Bytes message(1);
  ASSERT_TRUE(pair.post(0, send_of(message)).ok());
  pair.filter = [](std::size_t from, const Bytes&) { return from == 0; };
  pair.run_for(microseconds(1500));  // the ACK is sent and lost within this time
  pair.filter = nullptr;
  ASSERT_TRUE(pair[0].completions.empty());
  ASSERT_TRUE(pair.post(1, send_of(message)).ok());  // this message carries the ACK, much later
  pair.run_for(microseconds(100));
  EXPECT_EQ(pair[0].of(Opcode::send).size(), 1u);
  EXPECT_EQ(pair.channel(0).window().smoothed_round_trip().count(), 0);
  ASSERT_TRUE(pair.post(0, send_of(message)).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_GT(pair.channel(0).window().smoothed_round_trip(), microseconds(40));
  EXPECT_LT(pair.channel(0).window().smoothed_round_trip(), microseconds(45));
}

void exchange_promptly(Pair& pair, std::uint32_t times) {
  Bytes message(8);
  for (std::uint32_t i = 0; i < times; ++i) {
    ASSERT_TRUE(pair.post(0, send_of(message)).ok());
    pair.run_for(microseconds(50));
    ASSERT_TRUE(pair.post(1, send_of(message)).ok());
    pair.run_for(microseconds(50));
  }
}

TEST(RcChannel, PromptReplies_carryTheAcksOfLaterMessages) {
  Pair pair(24);
  Bytes message(8);
  exchange_promptly(pair, DelayedAck::kPromptReplies);
  EXPECT_EQ(pair[1].counters.acks_sent, DelayedAck::kPromptReplies);
  exchange_promptly(pair, 10);
  EXPECT_EQ(pair[1].counters.acks_sent, DelayedAck::kPromptReplies);
  ASSERT_TRUE(pair.post(0, send_of(message)).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(pair[1].counters.acks_sent, DelayedAck::kPromptReplies + 1u)
      << "the ACK of a message without a reply is sent soon";
  EXPECT_EQ(pair[0].counters.frames_resent, 0u);
}

TEST(RcChannel, DelayedAck_onRetransmissionOrFailure_isSentAtOnce) {
  for (const bool fails : {false, true}) {
    Pair pair(25);
    Bytes message(8);
    exchange_promptly(pair, DelayedAck::kPromptReplies);
    const std::uint64_t acks = pair[1].counters.acks_sent;
    if (!fails) pair.filter = [](std::size_t from, const Bytes&) { return from != 0; };
    ASSERT_TRUE(pair.post(0, send_of(message)).ok());
    pair.run_for(microseconds(30));
    pair.filter = nullptr;
    EXPECT_EQ(pair[1].counters.acks_sent, acks);
    if (fails) {
      pair.channel(1).abandon();
      pair.run_for(microseconds(1));
    } else {
      const std::size_t before = pair[1].of(Opcode::receive).size();
      ASSERT_TRUE(pair.run([&] { return pair[1].of(Opcode::receive).size() > before; }));
      pair.run_for(microseconds(1));
    }
    EXPECT_EQ(pair[1].counters.acks_sent, acks + 1) << (fails ? "failure" : "retransmission");
  }
}

TEST(RcChannel, OverlappingWrites_leaveTheBytesOfTheLastOne) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    LinkOptions options;
    options.loss = 0.2;
    options.jitter = microseconds(100);
    Pair pair(seed, options);
    Bytes region(256);
    Bytes expected(256);
    const MemoryKey key = pair[1].memory.add(region).value();
    std::vector<Bytes> sources;
    for (int i = 0; i < 300; ++i) {
      const std::size_t offset = pair.random()() % 200;
      sources.push_back(random_bytes(pair.random(), 1 + pair.random()() % 56));
      std::copy(sources.back().begin(), sources.back().end(), expected.begin() + offset);
      WorkRequest write = one_sided(Opcode::write, sources.back(), key, offset);
      write.local = sources.back();
      ASSERT_TRUE(pair.post(0, write).ok());
    }
    ASSERT_TRUE(pair.run_until_quiet());
    EXPECT_TRUE(region == expected) << seed;
  }
}

TEST(RcChannel, LossOfOnePercent_causesRetransmissionOfLessThanThreePercent) {
  LinkOptions options;
  options.loss = 0.01;
  Pair pair(8, options);
  Bytes region(1 << 20);
  const MemoryKey key = pair[1].memory.add(region).value();
  Bytes local(region.size());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, local, key)).ok());
  }
  const Instant start = pair.now();
  ASSERT_TRUE(pair.run_until_quiet());
  const auto& counters = pair[0].counters;
  EXPECT_GT(counters.frames_resent, 0u);
  EXPECT_LT(counters.frames_resent * 100, counters.frames_sent * 3);
  // The transfer takes 17.6 ms at line rate; a stall at every loss would take seconds.
  EXPECT_LT((pair.now() - start).count(), 120'000'000);
}

TEST(RcChannel, LostLastFrameIsRepairedWithinTwoTimeouts) {
  for (const RcKind lost : {RcKind::send, RcKind::read_request, RcKind::read_response}) {
    Pair pair(9);
    Bytes region(10);
    const MemoryKey key = pair[1].memory.add(region).value();
    bool dropped = false;
    pair.filter = [&](std::size_t, const Bytes& bytes) {
      const bool drop = !dropped && kind_of(bytes) == lost;
      dropped |= drop;
      return !drop;
    };
    Bytes message(100);
    Bytes local(10);
    ASSERT_TRUE(pair.post(0, send_of(message)).ok());
    ASSERT_TRUE(pair.post(0, one_sided(Opcode::read, local, key)).ok());
    const Instant start = pair.now();
    ASSERT_TRUE(pair.run([&] { return pair[0].completions.size() == 2; }));
    EXPECT_TRUE(dropped);
    EXPECT_LT(pair.now() - start, 2 * RcConfig{}.rto_min) << to_string(lost);
  }
}

TEST(RcChannel, LossInTheMiddleIsRepairedWithoutATimeout) {
  Pair pair(10);
  Bytes region(100'000);
  const MemoryKey key = pair[1].memory.add(region).value();
  std::size_t seen = 0;
  pair.filter = [&](std::size_t, const Bytes& bytes) {
    return kind_of(bytes) != RcKind::write || ++seen != 20;
  };
  Bytes local(region.size());
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, local, key)).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(pair[0].counters.frames_resent, 1u);
  EXPECT_EQ(pair[0].counters.timeouts, 0u);
}

TEST(RcChannel, WindowWhoseFramesAreAllLost_isRepairedAfterOneTimeout) {
  Pair pair(11);
  Bytes region(100'000);
  const MemoryKey key = pair[1].memory.add(region).value();
  std::size_t seen = 0;
  pair.filter = [&](std::size_t from, const Bytes&) { return from != 0 || ++seen > 72; };
  Bytes local(region.size());
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, local, key)).ok());
  const Instant start = pair.now();
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(pair[0].counters.timeouts, 1u);
  EXPECT_LT(pair.now() - start, 2 * RcConfig{}.rto_min);
}

TEST(RcChannel, Window_limitsTheFramesInFlight_andShrinksOnLoss) {
  RcConfig config;
  config.window_bytes = 20 * config.max_frame_bytes;
  Pair pair(12, {}, config);
  Bytes region(1 << 20);
  const MemoryKey key = pair[1].memory.add(region).value();
  Bytes local(region.size());
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, local, key)).ok());
  OutgoingFrame frame;
  std::size_t sent = 0;
  // All frames of the window are lost.
  while (pair.channel(0).next_frame(pair.now(), frame)) ++sent;
  EXPECT_EQ(sent, 20u);
  ASSERT_TRUE(pair.run([&] { return pair[0].counters.frames_resent >= 20; }));
  EXPECT_LE(pair.channel(0).window().window_frames(), 11u);
  EXPECT_GE(pair.channel(0).window().window_frames(), 4u);
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(pair.channel(0).window().window_frames(), 20u)
      << "the window must grow again up to its configured size";
}

// A paused process looks like a network that loses every frame, until the process runs again and
// answers.
TEST(RcChannel, PausedReceiver_causesOneRetransmission_andLeavesTheWindowUnchanged) {
  Pair pair(24);
  Bytes region(4 << 20);
  const MemoryKey key = pair[1].memory.add(region).value();
  Bytes local = random_bytes(pair.random(), region.size());
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, local, key)).ok());
  pair.run_for(milliseconds(1));
  const std::uint32_t window = pair.channel(0).window().window_frames();
  std::vector<Bytes> waiting;
  pair.filter = [&](std::size_t from, const Bytes& bytes) {
    if (from == 0) waiting.push_back(bytes);
    return from != 0;
  };
  pair.run_for(milliseconds(5));
  EXPECT_GE(waiting.size(), window / 2);
  // The oldest frame reaches the receiver before its retransmission does. The ACK is therefore for
  // the original frame.
  pair.inject(1, waiting.front());
  pair.run_for(milliseconds(1));
  for (std::size_t i = 1; i < waiting.size(); ++i) pair.inject(1, std::move(waiting[i]));
  pair.filter = nullptr;
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_TRUE(region == local);
  EXPECT_EQ(pair[0].counters.timeouts, 1u);
  EXPECT_EQ(pair[0].counters.frames_resent, 1u);
  EXPECT_EQ(pair.channel(0).window().window_frames(), window);
}

TEST(RcChannel, FramesReturnedUnsent_areSentLater_andDoNotCountAsLost) {
  Pair pair(13);
  Bytes message(1000, std::byte{1});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pair.post(0, send_of(message)).ok());
  OutgoingFrame frames[5];
  for (OutgoingFrame& frame : frames) ASSERT_TRUE(pair.channel(0).next_frame(pair.now(), frame));
  EXPECT_EQ(pair[0].counters.frames_sent, 5u);
  for (const OutgoingFrame& frame : frames) pair.channel(0).take_back(frame);
  pair.channel(0).take_back(frames[0]);  // a second take_back() of a frame must change nothing
  EXPECT_EQ(pair[0].counters.frames_sent, 0u);
  EXPECT_EQ(pair[0].counters.bytes_sent, 0u);
  EXPECT_TRUE(pair.channel(0).has_output(pair.now()));
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(pair[1].completions.size(), 5u);
  EXPECT_EQ(pair[0].counters.frames_resent, 0u);
  EXPECT_EQ(pair.channel(0).window().window_frames(), 181u)
      << "taken-back frames must not shrink the window";
}

TEST(RcChannel, Acks_ofAReceiverThatSendsNothing_areDelayedAndFew) {
  Pair pair(14);
  Bytes region(1 << 20);
  const MemoryKey key = pair[1].memory.add(region).value();
  Bytes local(region.size());
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, local, key)).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_LE(pair[1].counters.frames_sent, pair[0].counters.frames_sent / 16 + 40);
  EXPECT_EQ(pair[1].counters.acks_sent, pair[1].counters.frames_sent);
}

// The peer's messages carry ACKs, each of which opens the send window by a few frames. The next
// frames fill the window again, and only a few of them may request an ACK.
TEST(RcChannel, WindowThatOpensInSmallSteps_requestsFewAcks) {
  RcConfig config;
  config.max_frame_bytes = 8900;
  Pair pair(15, {.bytes_per_nanosecond = 0.125}, config);
  Bytes region(4'000'000);
  const MemoryKey key = pair[1].memory.add(region).value();
  Bytes local(region.size());
  Bytes message(100);
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, local, key)).ok());
  while (!pair.channel(0).quiet()) {
    ASSERT_TRUE(pair.post(1, send_of(message)).ok());
    pair.run_for(microseconds(150));  // time in which the link carries two frames of the WRITE
  }
  ASSERT_TRUE(pair.run_until_quiet());
  // The sender may request four ACKs per send window of 29 frames: one per seven frames.
  const std::uint64_t asked = pair[0].counters.frames_sent / 7;
  EXPECT_LE(pair[1].counters.acks_sent, asked + 10);
  EXPECT_EQ(pair[0].counters.frames_resent, 0u);
}

TEST(RcChannel, FrameWithoutAnAckRequestIsAcknowledgedAfterTheDelay) {
  Pair pair(15);
  RcFrame write;
  write.kind = RcKind::write;
  write.source_incarnation = 0xaaaa;
  write.destination_incarnation = 0xbbbb;
  Bytes bytes(kRcWriteHeaderBytes);
  encode(write, bytes.data());
  RcChannel& receiver = pair.channel(1);
  receiver.on_frame(pair.now(), bytes, pair[1]);
  EXPECT_FALSE(receiver.has_output(pair.now()));
  const Instant due = pair.now() + RcConfig{}.ack_delay;
  EXPECT_EQ(receiver.next_deadline(), due);
  EXPECT_TRUE(receiver.has_output(due));
  OutgoingFrame frame;
  ASSERT_TRUE(receiver.next_frame(due, frame));
  EXPECT_FALSE(frame.sequenced);
  EXPECT_EQ(receiver.next_deadline(), kNever);
}

TEST(RcChannel, DeadPeerIsReportedWithinTheTimeoutAndPendingWorkFails) {
  RcConfig config;
  config.peer_timeout = milliseconds(300);
  Pair pair(16, {}, config);
  Bytes region(100'000);
  const MemoryKey key = pair[1].memory.add(region).value();
  Bytes local(100'000);
  pair.filter = [&](std::size_t from, const Bytes&) { return from == 0; };  // rank 1 fell silent
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::write, local, key, 0, 1)).ok());
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::read, local, key, 0, 2)).ok());
  WorkRequest unsignaled = send_of(local, 3);
  unsignaled.local = unsignaled.local.first(100);
  unsignaled.signaled = false;
  ASSERT_TRUE(pair.post(0, unsignaled).ok());
  pair.run_for(milliseconds(299));
  EXPECT_FALSE(pair.channel(0).failed());
  EXPECT_TRUE(pair[0].completions.empty());
  pair.run_for(milliseconds(2));
  EXPECT_TRUE(pair.channel(0).failed());
  ASSERT_EQ(pair[0].completions.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(pair[0].completions[i].completion.code, Code::peer_failed);
    EXPECT_EQ(pair[0].completions[i].completion.work_id, i < 3 ? i + 1 : 0);
  }
  EXPECT_EQ(pair[0].completions[3].completion.opcode, Opcode::failure);
  EXPECT_EQ(pair[0].completions[3].completion.peer, rank_of(1));
  EXPECT_EQ(pair.post(0, send_of(local)).code(), Code::peer_failed);
  EXPECT_EQ(pair.channel(0).next_deadline(), kNever);
  EXPECT_FALSE(pair.channel(0).has_output(pair.now()));
}

TEST(RcChannel, ReadWithoutAnswerFailsThoughItsRequestWasAcknowledged) {
  RcConfig config;
  config.peer_timeout = milliseconds(100);
  Pair pair(17, {}, config);
  Bytes region(10);
  Bytes local(10);
  const MemoryKey key = pair[1].memory.add(region).value();
  bool answered = false;
  pair.filter = [&](std::size_t from, const Bytes& bytes) {
    // The answer and later frames are lost, but the ACK of the request arrives.
    answered |= kind_of(bytes) == RcKind::read_response;
    return from == 0 || !answered;
  };
  ASSERT_TRUE(pair.post(0, one_sided(Opcode::read, local, key, 0, 1)).ok());
  // Within a fifth of the peer timeout, the channel pings its silent peer. The answer to the ping
  // is lost, too, so the channel fails.
  ASSERT_TRUE(pair.run([&] { return pair.channel(0).failed(); }, milliseconds(101)));
  EXPECT_EQ(pair[0].completions[0].completion.code, Code::peer_failed);
}

TEST(RcChannel, Pings_keepAnIdleWatchedConnectionAlive) {
  RcConfig config;
  config.peer_timeout = milliseconds(100);
  LinkOptions options;
  options.loss = 0.1;
  Pair pair(18, options, config);
  pair.run_for(milliseconds(1000));
  EXPECT_EQ(pair[0].counters.frames_sent, 0u)
      << "no ping may be sent to a peer that is not watched";
  pair.channel(0).watch(true, pair.now());
  pair.run_for(milliseconds(1000));
  EXPECT_FALSE(pair.channel(0).failed());
  EXPECT_GE(pair[0].counters.pings_sent, 30u);
  EXPECT_LE(pair[0].counters.pings_sent, 55u);
  EXPECT_EQ(pair[1].counters.pings_sent, 0u);
  EXPECT_TRUE(pair[0].completions.empty());
  pair.filter = [](std::size_t, const Bytes&) { return false; };
  ASSERT_TRUE(pair.run([&] { return pair.channel(0).failed(); }, milliseconds(121)));
  EXPECT_FALSE(pair.channel(1).failed());
  ASSERT_EQ(pair[0].completions.size(), 1u);
  EXPECT_EQ(pair[0].completions[0].completion.opcode, Opcode::failure);
}

TEST(RcChannel, PeerTimeoutBeginsWhenThePeerIsWatched) {
  RcConfig config;
  config.peer_timeout = milliseconds(100);
  Pair pair(19, {}, config);
  Bytes message(1);
  ASSERT_TRUE(pair.post(0, send_of(message)).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  pair.run_for(milliseconds(5000));  // a long silence while neither end watches the other
  pair.channel(0).watch(true, pair.now());
  pair.channel(0).on_timer(pair.now(), pair[0]);
  EXPECT_FALSE(pair.channel(0).failed());
  pair.channel(0).watch(false, pair.now());
  EXPECT_EQ(pair.channel(0).next_deadline(), kNever);
}

TEST(RcChannel, FramesOfAnotherIncarnationAreDroppedAndCounted) {
  Pair pair(20);
  for (const bool source : {true, false}) {
    RcFrame frame;
    frame.kind = RcKind::send;
    frame.source_incarnation = source ? 0xdead : 0xaaaa;
    frame.destination_incarnation = source ? 0xbbbb : 0xdead;
    frame.message_bytes = 4;
    Bytes bytes(kRcHeaderMax);
    bytes.resize(encode(frame, bytes.data()) + 4);
    pair.channel(1).on_frame(pair.now(), bytes, pair[1]);
  }
  EXPECT_EQ(pair[1].counters.rejected_incarnation, 2u);
  EXPECT_TRUE(pair[1].completions.empty());
  EXPECT_FALSE(pair.channel(1).has_output(pair.now()));
}

TEST(RcChannel, AckOfUnsentFramesIsRejected) {
  Pair pair(21);
  Bytes message(1000);
  ASSERT_TRUE(pair.post(0, send_of(message)).ok());
  RcFrame ack;
  ack.kind = RcKind::ack;
  ack.source_incarnation = 0xbbbb;
  ack.destination_incarnation = 0xaaaa;
  ack.acknowledged = 5;
  Bytes bytes(kRcCommonBytes);
  encode(ack, bytes.data());
  pair.channel(0).on_frame(pair.now(), bytes, pair[0]);
  EXPECT_EQ(pair[0].counters.rejected_malformed, 1u);
  EXPECT_TRUE(pair[0].completions.empty());
}

TEST(RcChannel, MutatedFramesNeverReachBeyondRegisteredMemory) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    RcConfig config;
    config.peer_timeout = milliseconds(500);
    Pair pair(seed, {}, config);
    // Guard bytes lie on both sides of all memory that frames may address.
    constexpr std::size_t kGuard = 4096;
    Bytes arena(3 * kGuard, std::byte{0x5a});
    const std::span<std::byte> region = std::span(arena).subspan(kGuard, kGuard);
    Bytes reads(3 * kGuard, std::byte{0x5a});
    const std::span<std::byte> local = std::span(reads).subspan(kGuard, kGuard);
    const MemoryKey key = pair[1].memory.add(region).value();
    pair.filter = [&](std::size_t from, const Bytes& bytes) {
      Bytes mutated = bytes;
      const std::size_t flips = 1 + pair.random()() % 4;
      for (std::size_t i = 0; i < flips; ++i) {
        // The incarnations are not changed, because a frame with a wrong incarnation is dropped at
        // once.
        const std::size_t at = pair.random()() % mutated.size();
        if (at < 4 || at >= 12) mutated[at] ^= static_cast<std::byte>(1u << pair.random()() % 8);
      }
      if (pair.random()() % 8 == 0) mutated.resize(pair.random()() % mutated.size());
      pair.inject(1 - from, std::move(mutated));
      return pair.random()() % 2 == 0;
    };
    Bytes message(5000);
    for (int i = 0; i < 200; ++i) {
      WorkRequest request = i % 4 == 0 ? send_of(message) : one_sided(Opcode::write, local, key);
      if (i % 4 == 2) request.opcode = Opcode::read;
      if (i % 4 == 3) request.opcode = Opcode::write_immediate;
      ASSERT_TRUE(pair.post(0, request).ok());
    }
    pair.run([&] { return pair.channel(0).failed() || pair.channel(0).quiet(); });
    for (std::size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(arena[i], std::byte{0x5a});
      ASSERT_EQ(arena[2 * kGuard + i], std::byte{0x5a});
      ASSERT_EQ(reads[i], std::byte{0x5a});
      ASSERT_EQ(reads[2 * kGuard + i], std::byte{0x5a});
    }
    EXPECT_GT(pair[1].counters.rejected_malformed, 0u);
  }
}

TEST(MemoryTable, Key_resolvesOnlyBytesOfItsRegisteredMemory) {
  MemoryTable table;
  Bytes memory(100);
  const MemoryKey key = table.add(memory).value();
  EXPECT_NE(key.key, 0u);
  EXPECT_EQ(table.resolve(key.key, 40, 60)->data(), memory.data() + 40);
  EXPECT_TRUE(table.resolve(key.key, 100, 0));
  EXPECT_FALSE(table.resolve(key.key, 41, 60));
  EXPECT_FALSE(table.resolve(key.key, 101, 0));
  EXPECT_FALSE(table.resolve(key.key, UINT64_MAX, 2));
  EXPECT_FALSE(table.resolve(0, 0, 0));
  EXPECT_TRUE(table.remove(key));
  const MemoryKey next = table.add(memory).value();
  EXPECT_NE(next.key, key.key);
  EXPECT_FALSE(table.resolve(key.key, 0, 1)) << "a key must never become valid again";
  EXPECT_EQ(table.size(), 1u);
}

}  // namespace
}  // namespace tutti::device::rc
