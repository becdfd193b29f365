// Tests ranks that close their communicator while frames get lost, or while a peer still waits for
// the closing rank.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "job.hpp"

namespace tutti::scenario {
namespace {

constexpr std::uint32_t kRoot = 1;
constexpr auto kLong = std::chrono::seconds(60);

/// Drops the frames from the root to rank 0 that contain only an ACK. Longer frames, which also
/// carry ACKs, still arrive.
class LostAcks final : public device::FrameTap {
 public:
  unsigned copies(Rank from, Rank to, std::size_t bytes) override {
    constexpr std::size_t kLongestAckBytes = 28;
    if (index(from) != kRoot || index(to) != 0 || bytes > kLongestAckBytes) return 1;
    ++lost_;
    return 0;
  }
  int lost() const { return lost_; }

 private:
  std::atomic<int> lost_{0};
};

/// Drops each frame with a probability of one third.
class LossyPath final : public device::FrameTap {
 public:
  unsigned copies(Rank, Rank, std::size_t) override {
    thread_local std::minstd_rand random(std::random_device{}());
    return random() % 3 == 0 ? 0 : 1;
  }
};

/// Drops all frames between ranks 0 and 1 once arm() has been called.
class CutPath final : public device::FrameTap {
 public:
  unsigned copies(Rank from, Rank to, std::size_t) override {
    return armed_ && index(from) < 2 && index(to) < 2 ? 0 : 1;
  }
  void arm() { armed_ = true; }

 private:
  std::atomic<bool> armed_{false};
};

/// Once arm() has been called, throws std::bad_alloc at the next frame of the root, as if memory
/// had run out.
class MemoryRunsOut final : public device::FrameTap {
 public:
  unsigned copies(Rank from, Rank, std::size_t) override {
    if (index(from) == kRoot && armed_.exchange(false)) throw std::bad_alloc();
    return 1;
  }
  void arm() { armed_ = true; }
  bool armed() const { return armed_; }

 private:
  std::atomic<bool> armed_{false};
};

JobSpec spec_of(std::uint32_t size, std::shared_ptr<device::FrameTap> tap) {
  return {.size = size, .tap = std::move(tap), .options = small_chunks(), .close_together = false};
}

/// Gathers one block of each rank, by messages on connections.
void gather(Member& member, std::size_t block_bytes) {
  const Bytes own = pattern(block_bytes, member.rank());
  Bytes all(member.rank() == kRoot ? block_bytes * member.size() : 0);
  auto request =
      member.communicator().gather(own, all, rank_of(kRoot), {.algorithm = Algorithm("binomial")});
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  const Status status = request->wait();
  EXPECT_TRUE(status.ok()) << "rank " << member.rank() << ": " << status.to_string();
}

TEST(Closing, SenderWhoseAcksGetLost_completesItsCall) {
  const auto acks = std::make_shared<LostAcks>();
  JobSpec spec = spec_of(2, acks);
  spec.options.peer_timeout = std::chrono::seconds(5);
  // After the root has asked for the block of rank 0, the root sends only ACKs to rank 0.
  run_job(spec, [&](Member& member) { gather(member, 40'000); });
  EXPECT_GT(acks->lost(), 0);
}

TEST(Closing, RanksThatCloseTogetherOnALossyPath_completeTheirCalls) {
  for (int job = 0; job < 5; ++job) {
    run_job(spec_of(4, std::make_shared<LossyPath>()), [&](Member& member) {
      gather(member, 40'000);
      const Status end = member.communicator().finalize(kLong);
      EXPECT_TRUE(end.ok()) << "rank " << member.rank() << ": " << end.to_string();
    });
  }
}

TEST(Closing, ReceiveFromARankThatHasClosed_endsWithAnErrorThatNamesTheRank) {
  run_job(spec_of(2, nullptr), [&](Member& member) {
    ASSERT_TRUE(member.communicator().barrier()->wait().ok());
    if (member.rank() == kRoot) return;
    Bytes buffer(10);
    auto request = member.communicator().receive(buffer, rank_of(kRoot));
    ASSERT_TRUE(request.ok()) << request.status().to_string();
    const Status status = request->wait_for(kLong);
    EXPECT_EQ(status.code(), Code::peer_failed) << status.to_string();
    ASSERT_EQ(status.ranks().size(), 1u) << status.to_string();
    EXPECT_EQ(status.ranks()[0], rank_of(kRoot));
    EXPECT_NE(status.message().find("has closed the communicator"), std::string::npos)
        << status.to_string();
  });
}

TEST(Closing, Finalize_ifAPeerDoesNotAnswer_succeeds_andOtherRanksDoNotFail) {
  const auto cut = std::make_shared<CutPath>();
  JobSpec spec = spec_of(3, cut);
  spec.options.peer_timeout = std::chrono::milliseconds(600);
  spec.close_together = true;
  std::atomic<bool> closed{false};
  run_job(spec, [&](Member& member) {
    gather(member, 100);
    ASSERT_TRUE(member.communicator().barrier()->wait().ok());
    if (member.rank() == 0) {
      cut->arm();
      const Status end = member.communicator().finalize(kLong);
      EXPECT_TRUE(end.ok()) << end.to_string();
      closed = true;
      closed.notify_all();
      return;
    }
    closed.wait(false);
    const Status status = member.communicator().status();
    EXPECT_TRUE(status.ok()) << "rank " << member.rank() << ": " << status.to_string();
  });
}

Status end_of(Result<Request> call) { return call.ok() ? call->wait_for(kLong) : call.status(); }

TEST(Closing, BroadcastWhoseRootHasLeft_ifChunksAreLost_failsAndNamesTheRoot) {
  JobSpec spec = spec_of(2, nullptr);
  spec.faults = "drop receiver chunk ranks=0";
  spec.options.retain_bytes = CommunicatorOptions{}.retain_bytes;
  std::atomic<bool> left{false};
  run_job(spec, [&](Member& member) {
    Bytes buffer(2'000);
    Communicator& communicator = member.communicator();
    const CollectiveOptions multicast{.algorithm = Algorithm::multicast};
    Status status = end_of(communicator.barrier());
    ASSERT_TRUE(status.ok()) << status.to_string();
    if (member.rank() == kRoot) {
      status = end_of(communicator.broadcast(buffer, rank_of(kRoot), multicast));
      EXPECT_TRUE(status.ok()) << status.to_string();
      status = communicator.finalize(std::chrono::milliseconds(50));
      EXPECT_EQ(status.code(), Code::timeout) << status.to_string();
      left = true;
      left.notify_all();
      return;
    }
    left.wait(false);
    status = end_of(communicator.broadcast(buffer, rank_of(kRoot), multicast));
    EXPECT_EQ(status.code(), Code::peer_failed) << status.to_string();
    ASSERT_FALSE(status.ranks().empty()) << status.to_string();
    EXPECT_EQ(status.ranks()[0], rank_of(kRoot)) << status.to_string();
  });
}

TEST(Closing, Finalize_ifMemoryRunsOut_failsWithAnOutOfMemoryError) {
  const auto memory = std::make_shared<MemoryRunsOut>();
  std::barrier ready(2);
  std::atomic<bool> closed{false};
  run_job(spec_of(2, memory), [&](Member& member) {
    gather(member, 100);
    ASSERT_TRUE(member.communicator().barrier()->wait().ok());
    ready.arrive_and_wait();  // no rank may fail before both have left the barrier
    if (member.rank() != kRoot) {
      closed.wait(false);
      return;
    }
    memory->arm();
    const Status end = member.communicator().finalize(kLong);
    closed = true;
    closed.notify_all();
    EXPECT_FALSE(memory->armed()) << "the rank closed without a frame";
    EXPECT_EQ(end.code(), Code::resource_exhausted) << end.to_string();
    EXPECT_NE(end.message().find("out of memory"), std::string::npos) << end.to_string();
  });
}

}  // namespace
}  // namespace tutti::scenario
