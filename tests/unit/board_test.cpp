// Short collectives of one host: one meeting at the board, no message, whoever comes first, whoever
// runs ahead, and whatever else is under way.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>

#include "communicator_ranks.hpp"
#include "device/board.hpp"
#include "device/host/host_device.hpp"

namespace tutti::test {
namespace {

using std::chrono::milliseconds;

// What a rank may be ahead of those who read, and what fits a place (device/host/shared_board.hpp).
constexpr std::uint32_t kPlaces = 8;
constexpr std::size_t kLongest = 64 * 1024;

CommunicatorOptions on_host() {
  CommunicatorOptions options = patient();
  options.device_name = "host";
  return options;
}

CollectiveOptions by_board() { return {.algorithm = "linear"}; }

std::uint64_t grown(const Counters& before, const Counters& after, const char* name) {
  return after.at(name) - before.at(name);
}

void broadcast(Communicator& communicator, std::size_t bytes, std::uint32_t root,
               std::uint64_t seed) {
  const Bytes expected = pattern(bytes, seed);
  Bytes buffer = index(communicator.rank()) == root ? expected : Bytes(bytes);
  finish(communicator.broadcast(buffer, rank_of(root), by_board()));
  EXPECT_TRUE(buffer == expected) << bytes << " bytes from " << root;
}

void expect_blocks(const Bytes& all, std::size_t bytes, std::uint32_t ranks, std::uint64_t seed) {
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const Bytes expected = pattern(bytes, seed + r);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                           all.begin() + static_cast<std::ptrdiff_t>(r * bytes)))
        << bytes << " bytes of " << r;
  }
}

void allgather(Communicator& communicator, std::size_t bytes, std::uint64_t seed, bool in_place) {
  const Bytes own = pattern(bytes, seed + index(communicator.rank()));
  Bytes all(communicator.size() * bytes);
  const auto place = std::span(all).subspan(index(communicator.rank()) * bytes, bytes);
  if (in_place) std::copy(own.begin(), own.end(), place.begin());
  finish(communicator.allgather(in_place ? std::span<const std::byte>(place) : own, all,
                                by_board()));
  expect_blocks(all, bytes, communicator.size(), seed);
}

void gather(Communicator& communicator, std::size_t bytes, std::uint32_t root, std::uint64_t seed) {
  const Bytes own = pattern(bytes, seed + index(communicator.rank()));
  const bool at_root = index(communicator.rank()) == root;
  Bytes all(at_root ? communicator.size() * bytes : 0);
  finish(communicator.gather(own, all, rank_of(root), by_board()));
  if (at_root) expect_blocks(all, bytes, communicator.size(), seed);
}

class BoardOfRanks : public testing::TestWithParam<std::uint32_t> {};

TEST_P(BoardOfRanks, ShortCollectivesTakeNoMessage) {
  on_ranks(GetParam(), on_host(), [](Communicator& communicator) {
    const std::uint32_t ranks = communicator.size();
    const Counters before = counters_of(communicator);
    std::uint64_t seed = 0;
    std::uint64_t meetings = 0;
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{32},
                                    std::size_t{33}, std::size_t{1000}, kLongest}) {
      for (std::uint32_t root = 0; root < ranks; ++root) {
        broadcast(communicator, bytes, root, ++seed);
        gather(communicator, bytes, root, seed += 100);
      }
      for (const bool in_place : {false, true}) {
        allgather(communicator, bytes, seed += 100, in_place);
      }
      finish(communicator.barrier());
      meetings += 2 * ranks + 3;
    }
    const Counters after = counters_of(communicator);
    EXPECT_EQ(grown(before, after, "board_meetings"), meetings);
    EXPECT_EQ(grown(before, after, "collectives_completed"), meetings);
    EXPECT_EQ(grown(before, after, "messages_sent"), 0u);
    EXPECT_EQ(grown(before, after, "chunks_sent"), 0u);
  });
}

INSTANTIATE_TEST_SUITE_P(Board, BoardOfRanks, testing::Values(1, 2, 3, 4, 8),
                         [](const auto& one) { return "P" + std::to_string(one.param); });

TEST(Board, IsWhatWeChooseForShortBlocksOnly) {
  on_ranks(2, on_host(), [](Communicator& communicator) {
    Bytes buffer(kLongest + 1);
    const auto algorithm_of = [&](std::size_t bytes) {
      auto name = communicator.algorithm_of({.collective = Collective::broadcast,
                                             .receive = std::span(buffer).first(bytes)});
      return name ? *name : name.status().to_string();
    };
    EXPECT_EQ(algorithm_of(8), "linear");
    EXPECT_EQ(algorithm_of(kLongest), "linear");
    EXPECT_EQ(algorithm_of(kLongest + 1), "multicast");
    const Counters before = counters_of(communicator);
    finish(communicator.broadcast(std::span(buffer).first(8), rank_of(0)));
    EXPECT_EQ(grown(before, counters_of(communicator), "board_meetings"), 1u);
  });
}

TEST(Board, WhatDoesNotFitGoesByMessages) {
  on_ranks(3, on_host(), [](Communicator& communicator) {
    const Counters before = counters_of(communicator);
    broadcast(communicator, kLongest + 1, 1, 5);
    const Counters after = counters_of(communicator);
    EXPECT_EQ(grown(before, after, "board_meetings"), 0u);
    if (index(communicator.rank()) == 1) {
      EXPECT_EQ(grown(before, after, "messages_rendezvous"), 2u);
    }
  });
}

/// A root, and by Gather the others, may be so many meetings ahead of who reads, and no more.
void run_ahead(Collective collective) {
  constexpr std::uint32_t kMeetings = 3 * kPlaces;
  constexpr std::size_t kBytes = 700;
  std::barrier<> ahead(3);
  on_ranks(3, on_host(), [&](Communicator& communicator) {
    const std::uint32_t me = index(communicator.rank());
    const bool gathers = collective == Collective::gather;
    const bool reads = gathers == (me == 0);
    if (reads) ahead.arrive_and_wait();
    std::vector<Bytes> buffers;
    std::vector<Bytes> own;
    std::vector<Request> requests;
    for (std::uint32_t i = 0; i < kMeetings; ++i) {
      own.push_back(pattern(kBytes, 10 * i + me));
      buffers.push_back(gathers ? Bytes(reads ? 3 * kBytes : 0) : Bytes(kBytes));
      if (!gathers && me == 0) buffers.back() = own.back();
    }
    for (std::uint32_t i = 0; i < kMeetings; ++i) {
      auto request = gathers ? communicator.gather(own[i], buffers[i], rank_of(0), by_board())
                             : communicator.broadcast(buffers[i], rank_of(0), by_board());
      ASSERT_TRUE(request.ok());
      requests.push_back(std::move(*request));
    }
    if (!reads) {
      for (std::uint32_t i = 0; i < kPlaces; ++i) EXPECT_TRUE(requests[i].wait_for(kLong).ok());
      EXPECT_EQ(requests[kPlaces].wait_for(milliseconds(20)).code(), Code::timeout);
      ahead.arrive_and_wait();
    }
    for (Request& one : requests) EXPECT_TRUE(one.wait_for(kLong).ok());
    if (!reads) return;
    for (std::uint32_t i = 0; i < kMeetings; ++i) {
      if (gathers) {
        expect_blocks(buffers[i], kBytes, 3, 10 * i);
      } else {
        EXPECT_TRUE(buffers[i] == pattern(kBytes, 10 * i));
      }
    }
  });
}

TEST(Board, ARootIsAtMostAsFarAheadAsThereArePlaces) { run_ahead(Collective::broadcast); }

TEST(Board, WhoIsGatheredIsAtMostAsFarAheadAsThereArePlaces) { run_ahead(Collective::gather); }

TEST(Board, EndsWhileTheApplicationLooksElsewhere) {
  on_ranks(3, on_host(), [](Communicator& communicator) {
    for (std::uint32_t i = 0; i < 20; ++i) {
      // In turn each rank is late, so that the others' requests wait for it.
      if (i % 3 == index(communicator.rank())) std::this_thread::sleep_for(milliseconds(3));
      auto request = communicator.barrier();
      ASSERT_TRUE(request.ok());
      while (!request->progress().done) std::this_thread::sleep_for(milliseconds(1));
      EXPECT_TRUE(request->wait().ok());
    }
  });
}

TEST(Board, TellsWhoAsksToBeCalled) {
  on_ranks(3, on_host(), [](Communicator& communicator) {
    std::atomic<int> called{0};
    for (int i = 0; i < 50; ++i) {
      auto request = communicator.barrier();
      ASSERT_TRUE(request.ok());
      ASSERT_TRUE(
          communicator.on_completion(*request, [&](const Status& end) { called += end.ok(); }).ok());
    }
    finish(communicator.barrier());
    EXPECT_EQ(called, 50);
  });
}

TEST(Board, KeepsTheOrderAmongOtherCollectives) {
  constexpr std::size_t kLongBlock = 300'000;
  constexpr std::size_t kMessage = 40'000;
  on_ranks(4, on_host(), [](Communicator& communicator) {
    const std::uint32_t me = index(communicator.rank());
    for (std::uint64_t round = 0; round < 10; ++round) {
      const std::uint64_t seed = 1000 * round;
      const Bytes own = pattern(kLongBlock, seed + me);
      const Bytes small = pattern(50, seed + 10 + me);
      Bytes all(4 * kLongBlock), all_small(200), message(kMessage), by_messages(200);
      if (me == 2) message = pattern(kMessage, seed + 20);
      auto first = communicator.allgather(own, all, {Algorithm::multicast});
      auto second = communicator.allgather(small, all_small, by_board());
      auto third = communicator.broadcast(message, rank_of(2), {.algorithm = "binomial"});
      auto fourth = communicator.barrier();
      auto fifth = communicator.allgather(small, by_messages, {.algorithm = "bruck"});
      finish(std::move(fourth));
      finish(std::move(second));
      finish(std::move(fifth));
      finish(std::move(third));
      finish(std::move(first));
      expect_blocks(all, kLongBlock, 4, seed);
      expect_blocks(all_small, 50, 4, seed + 10);
      expect_blocks(by_messages, 50, 4, seed + 10);
      EXPECT_TRUE(message == pattern(kMessage, seed + 20));
    }
  });
}

TEST(Board, CallsThatDifferAreAnErrorThatNamesBoth) {
  std::atomic<int> named{0};
  on_ranks(3, on_host(), [&](Communicator& communicator) {
    Bytes buffer(index(communicator.rank()) == 2 ? 24 : 8);
    auto request = communicator.broadcast(buffer, rank_of(0), by_board());
    ASSERT_TRUE(request.ok());
    if (index(communicator.rank()) < 2) {
      EXPECT_TRUE(request->wait_for(kLong).ok());
    }
    if (index(communicator.rank()) != 2) return;
    const Status status = request->wait_for(kLong);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    for (const char* part : {"rank 0", "broadcast of 8 bytes, root 0", "rank 2", "of 24 bytes"}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    }
    ++named;
  });
  EXPECT_EQ(named, 1);
}

TEST(Board, ARankThatGoesIsMissedByName) {
  CommunicatorOptions options = on_host();
  options.peer_timeout = milliseconds(300);
  on_ranks(3, options, [](Communicator& communicator) {
    finish(communicator.barrier());
    if (index(communicator.rank()) == 1) return;
    auto request = communicator.barrier();
    ASSERT_TRUE(request.ok());
    const Status status = request->wait_for(kLong);
    EXPECT_EQ(status.code(), Code::peer_failed);
    EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
  });
}

TEST(Board, APeerThatLiesAboutItsBlockIsNotReadBeyondItsPlace) {
  device::host::HostDevice device;
  std::vector<std::unique_ptr<device::Endpoint>> endpoints;
  std::vector<std::vector<std::byte>> addresses;
  for (std::uint32_t r = 0; r < 2; ++r) {
    device::EndpointOptions options;
    options.rank = rank_of(r);
    options.size = 2;
    options.local_ranks = {rank_of(0), rank_of(1)};
    options.peer_timeout = kLong;
    auto opened = device.open(options);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    addresses.push_back((*opened)->address());
    endpoints.push_back(std::move(*opened));
  }
  for (auto& one : endpoints) ASSERT_TRUE(one->connect(addresses).ok());
  const Bytes block = pattern(8, 1);
  endpoints[0]->board()->enter({.block_bytes = std::uint64_t{1} << 40}, block);
  endpoints[1]->board()->enter({.block_bytes = 8}, block);
  const auto entries = endpoints[1]->board()->collect();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].meeting.block_bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(entries[0].block.size(), kLongest);
}

}  // namespace
}  // namespace tutti::test
