// Tests multicast in shared memory, which loses nothing: there is no slow path and no handshake,
// and no rank waits for a peer whose data has already arrived.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <thread>

#include "communicator_ranks.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kBlock = 100'000;

CommunicatorOptions on_host() {
  CommunicatorOptions options = patient();
  options.device_name = "host";
  return options;
}

void broadcast(Communicator& communicator, std::size_t bytes, std::uint32_t root,
               std::uint64_t seed) {
  const Bytes expected = pattern(bytes, seed);
  Bytes buffer = index(communicator.rank()) == root ? expected : Bytes(bytes);
  finish(communicator.broadcast(buffer, rank_of(root), {Algorithm::multicast}));
  EXPECT_TRUE(buffer == expected);
}

void allgather(Communicator& communicator, std::size_t bytes, std::uint64_t seed) {
  const std::uint32_t size = communicator.size();
  const Bytes own = pattern(bytes, seed + index(communicator.rank()));
  Bytes all(size * bytes);
  finish(communicator.allgather(own, all, {Algorithm::multicast}));
  for (std::uint32_t r = 0; r < size; ++r) {
    const Bytes expected = pattern(bytes, seed + r);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                           all.begin() + static_cast<std::ptrdiff_t>(r * bytes)));
  }
}

void expect_no_slow_path(const Counters& counters) {
  for (const char* name : {"cutoff_silence", "cutoff_neighbour_finished", "chunks_lost",
                           "fetch_ranges_asked", "tail_probes", "blocks_retained"}) {
    EXPECT_EQ(counters.at(name), 0u) << name;
  }
}

TEST(SharedMemoryMulticast, Broadcast_inSharedMemory_sendsNoMessage) {
  on_ranks(4, on_host(), [](Communicator& communicator) {
    const Counters before = counters_of(communicator);
    for (std::uint32_t i = 0; i < 12; ++i) broadcast(communicator, kBlock, i % 4, i);
    const Counters after = counters_of(communicator);
    EXPECT_EQ(grown(before, after, "messages_sent"), 0u);
    EXPECT_GT(grown(before, after, "chunks_sent"), 0u);
    expect_no_slow_path(after);
  });
}

TEST(SharedMemoryMulticast, Allgather_inSharedMemory_sendsNoMessage) {
  on_ranks(4, on_host(), [](Communicator& communicator) {
    const Counters before = counters_of(communicator);
    for (std::uint32_t i = 0; i < 12; ++i) allgather(communicator, kBlock, 100 * i);
    const Counters after = counters_of(communicator);
    EXPECT_EQ(grown(before, after, "messages_sent"), 0u);
    EXPECT_GE(grown(before, after, "chunks_received"), 12u * 3);
    expect_no_slow_path(after);
  });
}

TEST(SharedMemoryMulticast, BlocksLongerThanTheRing_areDeliveredWhole) {
  constexpr std::size_t kLong = kSanitized ? 6'000'000 : 20'000'000;
  // A ring fills up only while its receivers are slower than its sender, so the test repeats the
  // collectives until every rank has met a full ring.
  constexpr int kMostRounds = 50;
  std::array<std::atomic<bool>, 3> full{};
  on_ranks(3, on_host(), [&](Communicator& communicator) {
    const auto all_full = [&full] {
      return std::all_of(full.begin(), full.end(), std::identity{});
    };
    for (int round = 0; round < kMostRounds && !all_full(); ++round) {
      for (std::uint32_t i = 0; i < 3; ++i) {
        broadcast(communicator, kLong, i, i);
        allgather(communicator, kLong / 4, 10 * i);
      }
      full[index(communicator.rank())] = counters_of(communicator).at("device_send_queue_full") > 0;
      finish(communicator.barrier());
    }
    const Counters after = counters_of(communicator);
    EXPECT_GT(after.at("device_send_queue_full"), 0u);
    expect_no_slow_path(after);
  });
}

TEST(SharedMemoryMulticast, LateRootIsNotAskedForUnsentChunks) {
  on_ranks(3, on_host(), [](Communicator& communicator) {
    broadcast(communicator, kBlock, 0, 1);
    if (index(communicator.rank()) == 0) std::this_thread::sleep_for(milliseconds(300));
    broadcast(communicator, kBlock, 0, 2);
    allgather(communicator, kBlock, 3);
    expect_no_slow_path(counters_of(communicator));
  });
}

TEST(SharedMemoryMulticast, RootMayCloseBeforeTheOthersBegin) {
  std::barrier<> root_is_gone(3);
  on_ranks(3, on_host(), [&](Communicator& communicator) {
    if (index(communicator.rank()) == 0) {
      broadcast(communicator, kBlock, 0, 7);
      { const Communicator gone = std::move(communicator); }
      root_is_gone.arrive_and_wait();
    } else {
      root_is_gone.arrive_and_wait();
      broadcast(communicator, kBlock, 0, 7);
    }
  });
}

TEST(SharedMemoryMulticast, RootAndReceiversWithDifferentSizes_getAnError) {
  std::atomic<int> named{0};
  std::barrier created(3);
  on_ranks(3, on_host(), [&](Communicator& communicator) {
    // Without this barrier, a failure could interrupt the creation at another rank.
    created.arrive_and_wait();
    const bool root = index(communicator.rank()) == 0;
    Bytes buffer(root ? kBlock : 3 * kBlock + 1);
    auto request = communicator.broadcast(buffer, rank_of(0), {Algorithm::multicast});
    if (root) {
      ASSERT_TRUE(request.ok());
      (void)request->wait_for(kLong);
      return;
    }
    const Status status = request ? request->wait_for(kLong) : request.status();
    // If another rank has already found that the calls differ, this rank's call gets the error of
    // the failed communicator.
    EXPECT_TRUE(status.code() == Code::peer_failed || status.code() == Code::aborted)
        << status.to_string();
    if (status.message().find("same collectives") != std::string::npos) ++named;
  });
  EXPECT_GE(named, 1);
}

}  // namespace
}  // namespace tutti::test
