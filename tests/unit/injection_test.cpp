// Tests that reliable connections of a process yield to its multicast that waits for the same
// interface.
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

TEST(EgressPriority, MulticastCountsAsWaiting_whileAnyQueuePairWaits) {
  const auto injection = EgressPriority::of(1'000);
  EgressClaim one(injection);
  {
    EgressClaim other(injection);
    one.waits(true);
    one.waits(true);
    other.waits(true);
    one.waits(false);
    EXPECT_TRUE(injection->multicast_waits());
  }
  EXPECT_FALSE(injection->multicast_waits()) << "a destroyed queue pair must not count as waiting";
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
  turn.waits(true);
  for (int i = 0; i < 3; ++i) poll(0);
  EXPECT_EQ(frames(), 4u);
  EXPECT_EQ(rounds_held_back(), 3u);
  turn.waits(false);
  poll(0);
  EXPECT_GT(frames(), 4u);
  EXPECT_EQ(rounds_held_back(), 3u);
}

TEST_F(TwoEndpoints, TransferHeldBackForMulticast_stillCompletes) {
  EgressClaim turn(EgressPriority::of(if_nametoindex("lo")));
  turn.waits(true);
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

}  // namespace
}  // namespace tutti::device::ip
