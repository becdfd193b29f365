// Tests a rank that can send by multicast but not by unicast. A rank is in this state after its
// link has returned, until the kernel has resolved its neighbours' addresses. The test polls the
// endpoints of three ranks in turn and sets the time itself.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "base/random.hpp"
#include "device/ip/ip_device.hpp"

namespace tutti::device::ip {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kRanks = 3;
constexpr Nanoseconds kMillisecond{1'000'000};

/// Loses every unicast frame of rank 0 while `cut` is true. While `held` is true, the kernel of
/// rank 0 seems to lack the link addresses of its peers.
class Cut final : public FrameTap {
 public:
  unsigned copies(Rank from, Rank, std::size_t) override { return cut && from == Rank{0} ? 0 : 1; }
  bool loses_multicast() const override { return false; }
  bool holds_back(Rank from, Rank) const override { return held && from == Rank{0}; }
  bool cut = true;
  bool held = false;
};

class UnicastCut : public testing::TestWithParam<Multicast> {
 protected:
  void SetUp() override {
    IpOptions ip;
    ip.local_only = true;
    ip.multicast = GetParam();
    ip.tap = cut_;
    IpDevice device(ip);
    std::vector<Bytes> addresses;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      EndpointOptions options;
      options.rank = rank_of(rank);
      options.size = kRanks;
      options.communicator = 3;
      options.local_ranks = {Rank{0}, Rank{1}, Rank{2}};
      options.peer_timeout = 3000 * kMillisecond;
      const auto seed = static_cast<std::uint64_t>(::getpid());
      for (std::size_t i = 0; i < options.group_seed.size(); ++i)
        options.group_seed[i] = static_cast<std::byte>(draw(seed, i));
      auto endpoint = device.open(options);
      ASSERT_TRUE(endpoint) << endpoint.status().to_string();
      addresses.push_back((*endpoint)->address());
      endpoints_.push_back(std::move(*endpoint));
    }
    for (auto& one : endpoints_) {
      ASSERT_TRUE(one->use_secret(Bytes(32, std::byte{7})).ok());
      ASSERT_TRUE(one->connect(addresses).ok());
    }
  }

  void send(std::uint32_t from, std::uint32_t to) {
    ASSERT_TRUE(endpoints_[from]
                    ->post(now_, {.opcode = Opcode::send, .peer = rank_of(to), .local = note_})
                    .ok());
  }

  /// Lets time pass.
  void pass(Nanoseconds time) {
    const Instant end = now_ + time;
    for (; now_ < end; now_ = now_ + kMillisecond) poll_all();
  }
  /// Polls all ranks until `holds` returns true. The time does not advance meanwhile, so no further
  /// timer expires; only datagrams already sent, and answers to them, have effects.
  template <typename Condition>
  bool happens_now(Condition&& holds) {
    const auto hang = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > hang) return false;
      poll_all();
    }
    return true;
  }

  EndpointCounters counters(std::uint32_t rank) { return endpoints_[rank]->counters(); }

  std::shared_ptr<Cut> cut_ = std::make_shared<Cut>();
  std::array<int, kRanks> messages_{};
  std::array<int, kRanks> sends_{};
  Bytes note_ = Bytes(40, std::byte{9});

 private:
  void poll_all() {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) poll(rank);
  }
  void poll(std::uint32_t rank) {
    Endpoint& one = *endpoints_[rank];
    std::array<ReceivedChunk, 8> chunks;
    EXPECT_EQ(one.multicast(0).poll(chunks), 0u);
    one.multicast(0).release();
    std::array<Completion, 8> completions;
    const std::size_t count = one.poll(now_, completions);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_NE(completions[i].opcode, Opcode::failure);
      if (completions[i].opcode == Opcode::receive) ++messages_[rank];
      if (completions[i].opcode == Opcode::send) ++sends_[rank];
    }
  }

  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  Instant now_{1'000'000'000};
};

INSTANTIATE_TEST_SUITE_P(Device, UnicastCut, testing::Values(Multicast::ud, Multicast::uc),
                         [](const auto& one) { return one.param == Multicast::ud ? "ud" : "uc"; });

TEST_P(UnicastCut, FrameOfARankWithoutUnicast_goesByMulticastWithin200Milliseconds) {
  send(0, 1);
  pass(200 * kMillisecond);
  EXPECT_TRUE(happens_now([&] { return messages_[1] == 1 && sends_[0] == 1; }));
  EXPECT_GT(counters(0).reliable_timeouts, 0u);
  EXPECT_EQ(counters(2).reliable_frames_received, 0u) << "rank 2 took a frame to rank 1";
  EXPECT_EQ(counters(2).rejected_foreign, 0u) << "rank 2 refused a frame to rank 1";
  EXPECT_EQ(counters(0).reliable_frames_multicast, 2u) << "the retransmission and its ACK request";
}

// Unicast works again after 100 ms, as if the frame had waited in the queue of a slow link.
TEST_P(UnicastCut, FrameThatIsAnsweredAfter100Milliseconds_isNotMulticast) {
  send(0, 1);
  pass(100 * kMillisecond);
  cut_->cut = false;
  pass(100 * kMillisecond);
  EXPECT_TRUE(happens_now([&] { return messages_[1] == 1 && sends_[0] == 1; }));
  EXPECT_GE(counters(0).reliable_timeouts, 3u);
  EXPECT_EQ(counters(0).reliable_frames_multicast, 0u);
}

// A multicast frame reaches all ranks and takes time on all their links. New data therefore goes by
// unicast as long as unicast may work.
TEST_P(UnicastCut, NewFramesThatTheKernelDoesNotHoldBack_areNotMulticast) {
  send(0, 1);
  pass(200 * kMillisecond);
  ASSERT_TRUE(happens_now([&] { return sends_[0] == 1; }));
  cut_->cut = false;
  const std::uint64_t before = counters(0).reliable_frames_multicast;
  EXPECT_GT(before, 0u) << "unicast is not in doubt";
  for (int i = 0; i < 20; ++i) send(0, 2);
  ASSERT_TRUE(happens_now([&] { return messages_[2] == 20; }));
  EXPECT_EQ(counters(0).reliable_frames_multicast, before);
}

TEST_P(UnicastCut, NewFramesThatTheKernelHoldsBack_goByMulticastAtOnce) {
  cut_->held = true;
  send(0, 1);
  pass(200 * kMillisecond);
  ASSERT_TRUE(happens_now([&] { return sends_[0] == 1; }));
  const std::uint64_t before = counters(0).reliable_frames_multicast;
  for (int i = 0; i < 20; ++i) send(0, 2);
  EXPECT_TRUE(happens_now([&] { return messages_[2] == 20; }));
  EXPECT_GE(counters(0).reliable_frames_multicast, before + 20);
  EXPECT_EQ(counters(1).rejected_foreign, 0u) << "rank 1 refused a frame to rank 2";
}

// Rank 1 did not answer, so rank 0 doubts that its unicast reaches any rank. Rank 0 therefore
// acknowledges frames of rank 2 by multicast.
TEST_P(UnicastCut, AcksToOtherRanks_whileUnicastIsInDoubt_goByMulticastAtOnce) {
  send(0, 1);
  pass(200 * kMillisecond);
  send(2, 0);
  EXPECT_TRUE(happens_now([&] { return sends_[2] == 1; }));
  EXPECT_EQ(messages_[0], 1);
}

TEST_P(UnicastCut, FramesOfARankWhoseUnicastWorks_arriveOnce) {
  cut_->cut = false;
  for (int i = 0; i < 20; ++i) send(0, 1);
  ASSERT_TRUE(happens_now([&] { return messages_[1] == 20; }));
  EXPECT_EQ(counters(1).reliable_frames_duplicate, 0u);
}

}  // namespace
}  // namespace tutti::device::ip
