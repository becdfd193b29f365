// Tests the order in which the senders of a process use an interface. A sender claims the interface
// while the interface has no room for data that the sender has ready. Senders of lower priority
// then hold back, but their data must still arrive.
#include "device/ip/egress_priority.hpp"

#include <gtest/gtest.h>
#include <net/if.h>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "device/ip/ip_device.hpp"

namespace tutti::device::ip {
namespace {

TEST(EgressPriority, EachInterfaceHasItsOwnPriority) {
  const auto first = EgressPriority::of(1);
  EXPECT_EQ(first, EgressPriority::of(1));
  EXPECT_NE(first, EgressPriority::of(2));
}

constexpr Urgency kMulticast{.multicast = true};

TEST(EgressPriority, Claim_holdsBackOnlyDataOfALowerEgressPriority) {
  const std::array<Urgency, Urgency::kLevels> ascending = {{{Priority::low, false},
                                                            {Priority::low, true},
                                                            {Priority::normal, false},
                                                            {Priority::normal, true},
                                                            {Priority::high, false},
                                                            {Priority::high, true}}};
  const auto egress = EgressPriority::of(1'000);
  EgressClaim claim(egress);
  for (std::size_t claimed = 0; claimed < ascending.size(); ++claimed) {
    claim.claim(ascending[claimed]);
    for (std::size_t other = 0; other < ascending.size(); ++other) {
      EXPECT_EQ(egress->claimed_above(ascending[other]), other < claimed) << claimed << other;
    }
  }
  claim.withdraw();
  EXPECT_FALSE(egress->claimed_above(ascending[0]));
}

TEST(EgressPriority, ClaimsOfSeveralSenders_standUntilTheLastIsWithdrawnOrDestroyed) {
  const auto egress = EgressPriority::of(1'000);
  EgressClaim one(egress);
  {
    EgressClaim other(egress);
    one.claim(kMulticast);
    one.claim(kMulticast);
    other.claim(kMulticast);
    one.withdraw();
    EXPECT_TRUE(egress->claimed_above({}));
  }
  EXPECT_FALSE(egress->claimed_above({})) << "a destroyed sender must not hold others back";
}

TEST(EgressPriority, HigherPriorityInUse_limitsTheSendQueueOfLowerPrioritiesOnly) {
  auto socket = open_udp(AF_INET);
  ASSERT_TRUE(socket.ok());
  const auto egress = EgressPriority::of(1'000);
  EXPECT_FALSE(egress->allowance({}, socket->get()));
  egress->priorities().add(Priority::high);
  EXPECT_GT(egress->allowance({}, socket->get()).value_or(0), 0u);
  EXPECT_FALSE(egress->allowance({.priority = Priority::high}, socket->get()));
}

/// Two ranks of this process over the loopback interface.
class TwoEndpoints : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::vector<std::byte>> addresses;
    for (std::uint32_t r = 0; r < 2; ++r) {
      IpOptions ip;
      ip.interface = "lo";
      ip.local_only = true;
      IpDevice device(ip);
      EndpointOptions options;
      options.rank = rank_of(r);
      options.size = 2;
      options.group_seed = {std::byte{7}};
      options.local_ranks = {rank_of(0), rank_of(1)};
      options.peer_timeout = std::chrono::seconds(5);
      auto opened = device.open(options);
      ASSERT_TRUE(opened.ok()) << opened.status().to_string();
      endpoints_.push_back(std::move(*opened));
      addresses.push_back(endpoints_.back()->address());
    }
    for (auto& one : endpoints_) ASSERT_TRUE(one->connect(addresses).ok());
    auto key = endpoints_[1]->register_memory(region_);
    ASSERT_TRUE(key.ok());
    WorkRequest write;
    write.opcode = Opcode::write;
    write.peer = rank_of(1);
    write.local = local_;
    write.remote_key = *key;
    const Status posted = endpoints_[0]->post(now_, write);
    ASSERT_TRUE(posted.ok()) << posted.to_string();
  }

  std::size_t poll(std::size_t rank) {
    now_ = now_ + std::chrono::microseconds(10);
    return endpoints_[rank]->poll(now_, completions_);
  }
  std::uint64_t frames() { return endpoints_[0]->counters().reliable_frames_sent; }
  std::uint64_t rounds_held_back() { return endpoints_[0]->counters().reliable_rounds_held_back; }

  Instant now_{1'000'000'000};
  std::vector<std::byte> local_ = std::vector<std::byte>(4 << 20, std::byte{3});
  std::vector<std::byte> region_ = std::vector<std::byte>(local_.size());
  std::array<Completion, 16> completions_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

TEST_F(TwoEndpoints, WaitingMulticast_limitsTheFramesSentPerRound) {
  EgressClaim turn(EgressPriority::of(if_nametoindex("lo")));
  turn.claim(kMulticast);
  for (int i = 0; i < 3; ++i) poll(0);
  EXPECT_EQ(frames(), 4u);
  EXPECT_EQ(rounds_held_back(), 3u);
  turn.withdraw();
  poll(0);
  EXPECT_GT(frames(), 4u);
  EXPECT_EQ(rounds_held_back(), 3u);
}

TEST_F(TwoEndpoints, TransferHeldBackForMulticast_stillCompletes) {
  EgressClaim turn(EgressPriority::of(if_nametoindex("lo")));
  turn.claim(kMulticast);
  std::size_t done = 0;
  for (int i = 0; i < 1'000'000 && done == 0; ++i) {
    done = poll(0);
    poll(1);
  }
  ASSERT_EQ(done, 1u);
  EXPECT_EQ(completions_[0].code, Code::ok);
  EXPECT_TRUE(region_ == local_);
  EXPECT_GT(rounds_held_back(), 0u);
}

TEST_F(TwoEndpoints, Transfer_whileDataOfHigherPriorityArrives_sendsOneFramePerMillisecond) {
  PrioritiesInUse& priorities = *endpoints_[0]->priorities();
  priorities.on_arrival(Priority::high, now_);
  for (int i = 0; i < 50; ++i) poll(0);
  EXPECT_EQ(frames(), 1u);
  EXPECT_GT(rounds_held_back(), 0u);
  std::size_t done = 0;
  for (int i = 0; i < 1'000'000 && done == 0; ++i) {
    priorities.on_arrival(Priority::high, now_);
    done = poll(0);
    poll(1);
  }
  EXPECT_EQ(done, 1u) << "data that is held back must arrive in the end";
  EXPECT_TRUE(region_ == local_);
}

TEST_F(TwoEndpoints, MulticastBelowTheClaimedPriority_sendsFewChunksAtATime) {
  EgressClaim turn(EgressPriority::of(if_nametoindex("lo")));
  turn.claim({.priority = Priority::high});
  const auto chunk_bytes = endpoints_[0]->capabilities().max_chunk_bytes;
  const std::span<const std::byte> data = std::span(local_).first(8 * chunk_bytes);
  ChunkRun run{.data = data, .chunk_bytes = chunk_bytes};
  MulticastQueuePair& pair = endpoints_[0]->multicast(0);
  auto posted = pair.post(run);
  ASSERT_TRUE(posted.ok());
  EXPECT_GT(*posted, 0u);
  EXPECT_LT(*posted, 8u);
  EXPECT_EQ(endpoints_[0]->counters().multicast_posts_held_back, 1u);
  run.priority = Priority::high;
  posted = pair.post(run);
  ASSERT_TRUE(posted.ok());
  EXPECT_EQ(endpoints_[0]->counters().multicast_posts_held_back, 1u);
}

TEST_F(TwoEndpoints, WorkOfTheClaimedPriority_isNotHeldBack) {
  EgressClaim turn(EgressPriority::of(if_nametoindex("lo")));
  turn.claim({.priority = Priority::high});
  WorkRequest note{.opcode = Opcode::send,
                   .peer = rank_of(1),
                   .local = std::span(local_).first(8),
                   .priority = Priority::high};
  ASSERT_TRUE(endpoints_[0]->post(now_, note).ok());
  poll(0);
  EXPECT_GT(frames(), 4u) << "the WRITE must be sent with the priority of the note behind it";
  EXPECT_EQ(rounds_held_back(), 0u);
}

}  // namespace
}  // namespace tutti::device::ip
