// Tests short collectives by slot exchange, in any order of arrival, with ranks that run ahead and
// with other collectives under way. In shared memory an exchange sends no message. By multicast
// each rank sends one message, and more only for lost entries.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "communicator_ranks.hpp"
#include "device/host/host_device.hpp"
#include "device/slot_exchange.hpp"
#include "device/slots/datagram_slot_exchange.hpp"

namespace tutti::test {
namespace {

using std::chrono::milliseconds;

// The number of exchanges by which a rank may be ahead of its readers.
constexpr std::uint32_t kSlots = 8;

// A length that does not fit into a slot of any device.
constexpr std::size_t kBeyondAnySlotBytes = 1024 * 1024;

/// The longest block of a slot exchange.
std::size_t longest(const std::string& device) { return device == "host" ? 64 * 1024 : 16 * 1024; }

CommunicatorOptions on(const std::string& device) {
  CommunicatorOptions options = patient();
  options.device_name = device;
  return options;
}

CollectiveOptions by_slots() { return {.algorithm = "linear"}; }

void broadcast(Communicator& communicator, std::size_t bytes, std::uint32_t root,
               std::uint64_t seed) {
  const Bytes expected = pattern(bytes, seed);
  Bytes buffer = index(communicator.rank()) == root ? expected : Bytes(bytes);
  finish(communicator.broadcast(buffer, rank_of(root), by_slots()));
  EXPECT_TRUE(buffer == expected) << bytes << " bytes from " << root;
}

void allgather(Communicator& communicator, std::size_t bytes, std::uint64_t seed, bool in_place) {
  const Bytes own = pattern(bytes, seed + index(communicator.rank()));
  Bytes all(communicator.size() * bytes);
  const auto place = std::span(all).subspan(index(communicator.rank()) * bytes, bytes);
  if (in_place) std::copy(own.begin(), own.end(), place.begin());
  finish(
      communicator.allgather(in_place ? std::span<const std::byte>(place) : own, all, by_slots()));
  expect_blocks(all, bytes, communicator.size(), seed);
}

void gather(Communicator& communicator, std::size_t bytes, std::uint32_t root, std::uint64_t seed) {
  const Bytes own = pattern(bytes, seed + index(communicator.rank()));
  const bool at_root = index(communicator.rank()) == root;
  Bytes all(at_root ? communicator.size() * bytes : 0);
  finish(communicator.gather(own, all, rank_of(root), by_slots()));
  if (at_root) expect_blocks(all, bytes, communicator.size(), seed);
}

using Place = std::tuple<const char*, std::uint32_t>;  // test parameters: device, number of ranks

class SlotsOfRanks : public testing::TestWithParam<Place> {};

TEST_P(SlotsOfRanks, EachShortCollective_takesOneSlotExchange) {
  const std::string device = std::get<0>(GetParam());
  on_ranks(std::get<1>(GetParam()), on(device), [&](Communicator& communicator) {
    const std::uint32_t ranks = communicator.size();
    const Counters before = counters_of(communicator);
    std::uint64_t seed = 0;
    std::uint64_t meetings = 0;
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{40},
                                    std::size_t{41}, std::size_t{5000}, longest(device)}) {
      for (std::uint32_t root = 0; root < ranks; ++root) {
        broadcast(communicator, bytes, root, ++seed);
        gather(communicator, bytes, root, seed += 100);
      }
      for (const bool in_place : {false, true}) {
        allgather(communicator, bytes, seed += 100, in_place);
      }
      finish(communicator.barrier(by_slots()));
      meetings += 2 * ranks + 3;
    }
    const Counters after = counters_of(communicator);
    EXPECT_EQ(grown(before, after, "slot_exchanges"), meetings);
    EXPECT_EQ(grown(before, after, "collectives_completed"), meetings);
    EXPECT_EQ(grown(before, after, "chunks_sent"), 0u);
    if (device == "host") {
      EXPECT_EQ(grown(before, after, "messages_sent"), 0u);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(SlotExchange, SlotsOfRanks,
                         testing::Values(Place{"host", 1}, Place{"host", 2}, Place{"host", 3},
                                         Place{"host", 4}, Place{"host", 8}, Place{"ip", 2},
                                         Place{"ip", 3}, Place{"ip", 4}, Place{"ip", 8}),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param)) + "P" +
                                  std::to_string(std::get<1>(one.param));
                         });

class SlotExchange : public testing::TestWithParam<const char*> {
 protected:
  CommunicatorOptions options() const { return on(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Device, SlotExchange, testing::Values("host", "ip"),
                         [](const auto& one) { return std::string(one.param); });

TEST(SharedSlots, SlotExchange_isChosenByDefaultForShortBlocksOnly) {
  on_ranks(2, on("host"), [](Communicator& communicator) {
    Bytes buffer(longest("host") + 1);
    const auto algorithm_of = [&](std::size_t bytes) {
      auto name = communicator.algorithm_of(
          {.collective = Collective::broadcast, .receive = std::span(buffer).first(bytes)});
      return name ? *name : name.status().to_string();
    };
    EXPECT_EQ(algorithm_of(8), "linear");
    EXPECT_EQ(algorithm_of(longest("host")), "linear");
    EXPECT_EQ(algorithm_of(longest("host") + 1), "multicast");
    const Counters before = counters_of(communicator);
    finish(communicator.broadcast(std::span(buffer).first(8), rank_of(0)));
    EXPECT_EQ(grown(before, counters_of(communicator), "slot_exchanges"), 1u);
  });
}

TEST_P(SlotExchange, LongBlocks_useMessagesInsteadOfSlots) {
  on_ranks(3, options(), [&](Communicator& communicator) {
    const Counters before = counters_of(communicator);
    broadcast(communicator, longest(GetParam()) + 1, 1, 5);
    const Counters after = counters_of(communicator);
    EXPECT_EQ(grown(before, after, "slot_exchanges"), 0u);
    if (index(communicator.rank()) == 1) {
      EXPECT_EQ(grown(before, after, "messages_rendezvous"), 2u);
    }
  });
}

/// Expects that a sender can complete exactly kSlots exchanges before its readers take part. The
/// sender is the root; in a Gather, every rank except the root is a sender.
void run_ahead(Collective collective, const CommunicatorOptions& options) {
  constexpr std::uint32_t kMeetings = 3 * kSlots;
  constexpr std::size_t kBytes = 700;
  std::barrier<> ahead(3);
  on_ranks(3, options, [&](Communicator& communicator) {
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
      auto request = gathers ? communicator.gather(own[i], buffers[i], rank_of(0), by_slots())
                             : communicator.broadcast(buffers[i], rank_of(0), by_slots());
      ASSERT_TRUE(request.ok());
      requests.push_back(std::move(*request));
    }
    if (!reads) {
      for (std::uint32_t i = 0; i < kSlots; ++i) EXPECT_TRUE(requests[i].wait_for(kLong).ok());
      EXPECT_EQ(requests[kSlots].wait_for(milliseconds(20)).code(), Code::timeout);
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

TEST_P(SlotExchange, RootAheadOfReadersIsLimitedByTheSlots) {
  run_ahead(Collective::broadcast, options());
}

TEST_P(SlotExchange, RankOfAGather_aheadOfTheRoot_isLimitedByTheSlots) {
  run_ahead(Collective::gather, options());
}

TEST_P(SlotExchange, CallForWhichNoThreadWaits_completes) {
  on_ranks(3, options(), [](Communicator& communicator) {
    for (std::uint32_t i = 0; i < 20; ++i) {
      // Each rank in turn is late, so that the requests of the other ranks must wait for it.
      if (i % 3 == index(communicator.rank())) std::this_thread::sleep_for(milliseconds(3));
      auto request = communicator.barrier(by_slots());
      ASSERT_TRUE(request.ok());
      while (!request->progress().done) std::this_thread::sleep_for(milliseconds(1));
      EXPECT_TRUE(request->wait().ok());
    }
  });
}

TEST_P(SlotExchange, CallbackRunsOnceForEachCall) {
  on_ranks(3, options(), [](Communicator& communicator) {
    std::atomic<int> called{0};
    for (int i = 0; i < 50; ++i) {
      auto request = communicator.barrier(by_slots());
      ASSERT_TRUE(request.ok());
      ASSERT_TRUE(
          communicator.on_completion(*request, [&](const Status& end) { called += end.ok(); })
              .ok());
    }
    finish(communicator.barrier(by_slots()));
    EXPECT_EQ(called, 50);
  });
}

TEST_P(SlotExchange, SlotExchanges_amongOtherCollectives_keepTheOrderOfCalls) {
  constexpr std::size_t kLongBlock = 300'000;
  constexpr std::size_t kMessage = 40'000;
  on_ranks(4, options(), [](Communicator& communicator) {
    const std::uint32_t me = index(communicator.rank());
    for (std::uint64_t round = 0; round < 10; ++round) {
      const std::uint64_t seed = 1000 * round;
      const Bytes own = pattern(kLongBlock, seed + me);
      const Bytes small = pattern(50, seed + 10 + me);
      Bytes all(4 * kLongBlock), all_small(200), message(kMessage), by_messages(200);
      if (me == 2) message = pattern(kMessage, seed + 20);
      auto first = communicator.allgather(own, all, {Algorithm::multicast});
      auto second = communicator.allgather(small, all_small, by_slots());
      auto third = communicator.broadcast(message, rank_of(2), {.algorithm = "binomial"});
      auto fourth = communicator.barrier(by_slots());
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

TEST_P(SlotExchange, DifferentCalls_failWithAnErrorThatNamesBoth) {
  std::atomic<int> named{0};
  // Rank 2 calls only after the other ranks have finished. Otherwise the error of rank 2 would also
  // end the collectives of the other ranks.
  std::barrier<> finished(3);
  on_ranks(3, options(), [&](Communicator& communicator) {
    const bool differs = index(communicator.rank()) == 2;
    if (differs) finished.arrive_and_wait();
    Bytes buffer(differs ? 24 : 8);
    auto request = communicator.broadcast(buffer, rank_of(0), by_slots());
    EXPECT_TRUE(request.ok());
    const Status status = request.ok() ? request->wait_for(kLong) : request.status();
    if (!differs) {
      EXPECT_TRUE(status.ok()) << status.to_string();
      finished.arrive_and_wait();
      return;
    }
    EXPECT_EQ(status.code(), Code::invalid_argument);
    for (const char* part : {"rank 0", "broadcast of 8 bytes, root 0", "rank 2", "of 24 bytes"}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    }
    ++named;
  });
  EXPECT_EQ(named, 1);
}

/// The outcome of rank 1 in a Broadcast of rank 0. The ranks pass the given sizes, and rank 0
/// closes its communicator as soon as its own call has ended.
Status broadcast_of_sizes(const CommunicatorOptions& options, std::size_t at_root,
                          std::size_t at_reader) {
  Status said;
  std::barrier created(2);
  on_ranks(2, options, [&](Communicator& communicator) {
    created.arrive_and_wait();  // no rank may fail before creation has ended at every rank
    const bool root = index(communicator.rank()) == 0;
    Bytes buffer(root ? at_root : at_reader);
    auto request = communicator.broadcast(buffer, rank_of(0));
    Status status = request.ok() ? request->wait_for(kLong) : request.status();
    if (!root) said = std::move(status);
    if (root) const Communicator closed = std::move(communicator);
  });
  return said;
}

TEST_P(SlotExchange, RootThatMulticasts_toAReaderOfSlots_isNamedInTheError) {
  const Status status = broadcast_of_sizes(options(), 128 * 1024, 1024);
  EXPECT_EQ(status.code(), Code::invalid_argument) << status.to_string();
  EXPECT_NE(status.message().find("bytes by multicast that do not fit"), std::string::npos)
      << status.to_string();
  EXPECT_EQ(ranks_of(status), (std::vector<std::uint32_t>{0, 1}));
}

/// Expects that a Broadcast of rank 0 by slots fails with an error that names `rank` and has
/// `text`.
void expect_broadcast_fails(Communicator& communicator, std::uint32_t rank, const char* text) {
  Bytes buffer(8);
  auto request = communicator.broadcast(buffer, rank_of(0), by_slots());
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  const Status status = request->wait_for(kLong);
  EXPECT_EQ(status.code(), Code::peer_failed) << status.to_string();
  EXPECT_NE(status.message().find(text), std::string::npos) << status.to_string();
  EXPECT_EQ(ranks_of(status), std::vector<std::uint32_t>{rank});
}

TEST_P(SlotExchange, RootOfASlotExchange_whoseReaderAwaitsMulticast_isNamedInTheError) {
  const Status status = broadcast_of_sizes(options(), 1024, 512 * 1024);
  EXPECT_EQ(status.code(), Code::peer_failed) << status.to_string();
  EXPECT_NE(status.message().find("no longer retains the chunks that this rank lacks"),
            std::string::npos)
      << status.to_string();
  EXPECT_EQ(ranks_of(status), (std::vector<std::uint32_t>{0, 1}));
}

TEST(SharedSlots, ClosedRankWithoutAnEntry_isNamedInTheError) {
  std::barrier created(2);
  on_ranks(2, on("host"), [&](Communicator& communicator) {
    created.arrive_and_wait();
    if (index(communicator.rank()) == 0) {
      finish(communicator.broadcast({}, rank_of(0), {.algorithm = "multicast"}));
      const Communicator closed = std::move(communicator);
      return;
    }
    expect_broadcast_fails(communicator, 0, "its message of this collective has not arrived");
  });
}

TEST_P(SlotExchange, ClosedRankThatKeepsTheSlotOfARootBusy_isNamedInTheError) {
  std::barrier created(2);
  on_ranks(2, options(), [&](Communicator& communicator) {
    created.arrive_and_wait();
    if (index(communicator.rank()) == 1) {
      for (std::uint64_t i = 0; i < kSlots + 1; ++i)
        finish(communicator.broadcast({}, rank_of(1), {.algorithm = "multicast"}));
      const Communicator closed = std::move(communicator);
      return;
    }
    for (std::uint64_t i = 0; i < kSlots; ++i) broadcast(communicator, 8, 0, i);
    expect_broadcast_fails(communicator, 1, "it has not taken part in an earlier collective");
  });
}

TEST_P(SlotExchange, BarrierWithBuffers_ignoresThem) {
  on_ranks(3, options(), [&](Communicator& communicator) {
    const Bytes sent(kBeyondAnySlotBytes, std::byte{1});
    Bytes received(sent.size());
    const std::span<std::byte> overlapping = std::span(received).subspan(1);
    finish(communicator.start({.collective = Collective::barrier, .send = sent}));
    finish(communicator.start(
        {.collective = Collective::barrier, .send = received, .receive = overlapping}));
    auto prepared = communicator.prepare({.collective = Collective::barrier, .send = sent});
    ASSERT_TRUE(prepared.ok()) << prepared.status().to_string();
    finish(prepared->start());
    EXPECT_TRUE(received == Bytes(sent.size()));
  });
}

TEST_P(SlotExchange, BarrierAfterARunOfBroadcasts_completes) {
  on_ranks(3, options(), [&](Communicator& communicator) {
    for (std::uint64_t i = 0; i < kSlots; ++i) broadcast(communicator, 8, 0, i);
    finish(communicator.barrier(by_slots()));
    EXPECT_EQ(counters_of(communicator).at("slot_exchanges"), kSlots + 1);
  });
}

TEST_P(SlotExchange, RootThatChanges_amongMoreRanksThanSlots_completes) {
  constexpr std::uint32_t kRanks = kSlots + 2;
  on_ranks(kRanks, options(), [&](Communicator& communicator) {
    for (std::uint32_t i = 0; i < 3 * kRanks; ++i) broadcast(communicator, 8, i % kRanks, i);
    EXPECT_EQ(counters_of(communicator).at("slot_exchanges"), 3 * kRanks);
  });
}

TEST(SlotExchangeBetweenHosts, ClosedRankIsNamedInTheError) {
  std::atomic<int> named{0};
  std::barrier ready(3);
  on_ranks(3, on("ip"), [&](Communicator& communicator) {
    finish(communicator.barrier(by_slots()));
    ready.arrive_and_wait();  // rank 1 must not close while another rank is in the Barrier
    if (index(communicator.rank()) == 1) {
      const Communicator closed = std::move(communicator);
      return;
    }
    // If this rank already knows that rank 1 has closed, it refuses the call.
    auto request = communicator.barrier(by_slots());
    const Status status = request.ok() ? request->wait_for(kLong) : request.status();
    EXPECT_EQ(status.code(), Code::peer_failed) << status.to_string();
    const std::vector<Rank> blamed(status.ranks().begin(), status.ranks().end());
    EXPECT_EQ(blamed, std::vector<Rank>{Rank{1}}) << status.to_string();
    if (status.message().find("has closed its communicator") != std::string::npos) {
      ++named;
    }
  });
  EXPECT_GE(named, 1);
}

/// Between hosts a datagram with the root's entry may be lost, so the closing root must wait. In
/// shared memory the entry stays readable.
TEST_P(SlotExchange, ClosingRootWaitsForRanksThatMayMissItsEntry) {
  const bool may_be_lost = GetParam() == std::string("ip");
  std::barrier sent(3);
  std::atomic<int> entered{0};
  on_ranks(3, options(), [&](Communicator& communicator) {
    if (index(communicator.rank()) == 0) {
      Bytes buffer = pattern(3000, 5);
      finish(communicator.broadcast(buffer, rank_of(0), by_slots()));
      sent.arrive_and_wait();
      { const Communicator closed = std::move(communicator); }
      if (may_be_lost) {
        EXPECT_EQ(entered, 2) << "the root closed before both other ranks had made their calls";
      }
      return;
    }
    sent.arrive_and_wait();
    std::this_thread::sleep_for(milliseconds(100));  // a root that does not wait closes meanwhile
    ++entered;
    Bytes buffer(3000);
    finish(communicator.broadcast(buffer, rank_of(0), by_slots()));
    EXPECT_TRUE(buffer == pattern(3000, 5));
  });
}

TEST_P(SlotExchange, LeavingRankIsNamedInTheError) {
  std::barrier ready(3);
  on_ranks(3, options(), [&](Communicator& communicator) {
    finish(communicator.barrier(by_slots()));
    ready.arrive_and_wait();  // rank 1 must not close while another rank is in the Barrier
    if (index(communicator.rank()) == 1) return;
    // If this rank already knows that rank 1 has closed, it refuses the call.
    auto request = communicator.barrier(by_slots());
    const Status status = request.ok() ? request->wait_for(kLong) : request.status();
    EXPECT_EQ(status.code(), Code::peer_failed) << status.to_string();
    EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
  });
}

/// Two connected endpoints in shared memory; fewer if a step fails.
std::vector<std::unique_ptr<device::Endpoint>> two_endpoints(device::host::HostDevice& device) {
  std::vector<std::unique_ptr<device::Endpoint>> endpoints;
  std::vector<std::vector<std::byte>> addresses;
  for (std::uint32_t r = 0; r < 2; ++r) {
    device::EndpointOptions options;
    options.rank = rank_of(r);
    options.size = 2;
    options.local_ranks = {rank_of(0), rank_of(1)};
    options.peer_timeout = kLong;
    auto opened = device.open(options);
    EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    if (!opened) return {};
    addresses.push_back((*opened)->address());
    endpoints.push_back(std::move(*opened));
  }
  for (auto& one : endpoints) EXPECT_TRUE(one->connect(addresses).ok());
  return endpoints;
}

TEST(SharedSlots, BlockLongerThanASlot_isRefused) {
  device::host::HostDevice device;
  const auto endpoints = two_endpoints(device);
  ASSERT_EQ(endpoints.size(), 2u);
  device::SlotExchange& slots = *endpoints[0]->slot_exchange();
  const Bytes block(slots.max_block_bytes() + 1);
  const Status refused = slots.enter({.block_bytes = block.size()}, block);
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_TRUE(slots.enter({.block_bytes = 8}, std::span(block).first(8)).ok());
}

TEST(SharedSlots, EntryWithAFalseLength_isNotReadBeyondItsSlot) {
  device::host::HostDevice device;
  const auto endpoints = two_endpoints(device);
  ASSERT_EQ(endpoints.size(), 2u);
  const Bytes block = pattern(8, 1);
  EXPECT_TRUE(
      endpoints[0]->slot_exchange()->enter({.block_bytes = std::uint64_t{1} << 40}, block).ok());
  EXPECT_TRUE(endpoints[1]->slot_exchange()->enter({.block_bytes = 8}, block).ok());
  const auto entries = endpoints[1]->slot_exchange()->collect();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].header.block_bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(entries[0].block.size(), longest("host"));
}

/// The network of a few slot exchanges. It delivers a chunk to each of the chunk's destination
/// ranks, unless `lost` returns true for the chunk and the rank.
struct LossyNetwork {
  struct Chunk {
    std::uint32_t epoch;
    std::uint32_t psn;
    Rank source;
    Bytes payload;
  };
  std::vector<std::deque<Chunk>> queues;
  std::function<bool(const Chunk&, Rank)> lost = [](const Chunk&, Rank) { return false; };
};

class LossyPair final : public device::MulticastQueuePair {
 public:
  LossyPair(LossyNetwork& network, Rank me) : network_(network), me_(me) {}

  Result<std::uint32_t> post(const device::ChunkRun& run) override {
    std::uint32_t accepted = 0;
    for (std::size_t at = 0; at < run.data.size(); at += run.chunk_bytes, ++accepted) {
      const auto part =
          run.data.subspan(at, std::min<std::size_t>(run.chunk_bytes, run.data.size() - at));
      const LossyNetwork::Chunk chunk{
          run.epoch, run.first_psn + accepted, me_, {part.begin(), part.end()}};
      for (std::uint32_t r = 0; r < network_.queues.size(); ++r) {
        const bool meant = run.to == kNoRank || run.to == rank_of(r);
        if (rank_of(r) == me_ || !meant || network_.lost(chunk, rank_of(r))) continue;
        network_.queues[r].push_back(chunk);
      }
    }
    return accepted;
  }
  std::uint64_t unsent_bytes() override { return 0; }
  std::size_t poll(std::span<device::ReceivedChunk> chunks) override {
    held_.clear();
    auto& queue = network_.queues[index(me_)];
    while (!queue.empty() && held_.size() < chunks.size()) {
      held_.push_back(std::move(queue.front()));
      queue.pop_front();
    }
    for (std::size_t i = 0; i < held_.size(); ++i) {
      chunks[i] = {held_[i].epoch, held_[i].psn, held_[i].source, held_[i].payload, nullptr};
    }
    return held_.size();
  }
  bool copy_and_verify(const device::ReceivedChunk&, std::byte*) override { return true; }
  void release() override {}
  Status post_probe(std::uint32_t, std::uint32_t) override { return {}; }

 private:
  LossyNetwork& network_;
  Rank me_;
  std::vector<LossyNetwork::Chunk> held_;
};

constexpr std::uint32_t kChunk = 116;  // bytes of a chunk: a header and a piece of 100 bytes

struct SlotExchanges {
  explicit SlotExchanges(std::uint32_t size) {
    network.queues.resize(size);
    for (std::uint32_t r = 0; r < size; ++r) {
      pairs.push_back(std::make_unique<LossyPair>(network, rank_of(r)));
      slot_exchanges.push_back(std::make_unique<device::slots::DatagramSlotExchange>(
          rank_of(r), size, *pairs.back(), kChunk));
    }
  }

  /// Does the work of the engine: sends NAKs for missing entries, and answers NAKs.
  void repair() {
    for (std::uint32_t r = 0; r < slot_exchanges.size(); ++r) {
      for (const Rank missing : slot_exchanges[r]->missing()) {
        again += slot_exchanges[index(missing)]->resend(slot_exchanges[r]->exchange()) ? 1 : 0;
      }
      for (const Rank behind : slot_exchanges[r]->awaited_acks()) {
        slot_exchanges[r]->on_acked(behind, slot_exchanges[index(behind)]->acked());
      }
    }
  }

  LossyNetwork network;
  std::vector<std::unique_ptr<LossyPair>> pairs;
  std::vector<std::unique_ptr<device::slots::DatagramSlotExchange>> slot_exchanges;
  std::uint64_t again = 0;
};

device::ExchangeHeader all_to_all(std::size_t bytes) {
  return {.purpose = 2, .block_bytes = bytes};
}

TEST(LossySlotExchange, EveryEntryArrivesDespiteLosses) {
  constexpr std::uint32_t kRanks = 4;
  SlotExchanges job(kRanks);
  std::uint64_t step = 0;
  job.network.lost = [&](const LossyNetwork::Chunk&, Rank) { return draw(7, ++step) % 4 == 0; };
  for (std::uint64_t meeting = 1; meeting <= 60; ++meeting) {
    const std::size_t bytes = draw(8, meeting) % 2500;
    std::vector<Bytes> own;
    std::vector<std::map<std::uint32_t, Bytes>> got(kRanks);
    for (std::uint32_t r = 0; r < kRanks; ++r) own.push_back(pattern(bytes, 10 * meeting + r));
    std::set<std::uint32_t> inside;
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      EXPECT_TRUE(job.slot_exchanges[r]->enter(all_to_all(bytes), own[r]).ok());
      inside.insert(r);
    }
    for (int round = 0; !inside.empty(); ++round) {
      ASSERT_LT(round, 1000);
      for (std::uint32_t r = 0; r < kRanks; ++r) {
        if (!inside.contains(r)) continue;
        for (const device::SlotEntry& one : job.slot_exchanges[r]->collect()) {
          got[r][index(one.from)] = {one.block.begin(), one.block.end()};
        }
        if (!job.slot_exchanges[r]->complete()) continue;
        job.slot_exchanges[r]->leave();
        inside.erase(r);
      }
      job.repair();
    }
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      ASSERT_EQ(got[r].size(), kRanks - 1);
      for (const auto& [from, block] : got[r]) ASSERT_TRUE(block == own[from]) << meeting;
    }
  }
  EXPECT_GT(job.again, 20u);
}

/// Runs Broadcasts of 8 bytes from the given roots. Each rank leaves an exchange as soon as it has
/// completed it.
void broadcast_from(SlotExchanges& job, const std::vector<std::uint32_t>& roots) {
  const Bytes block = pattern(8, 1);
  for (const std::uint32_t root : roots) {
    const device::ExchangeHeader broadcast{.flow = device::ExchangeHeader::Flow::root_to_all,
                                           .purpose = 1,
                                           .root = rank_of(root),
                                           .block_bytes = 8};
    for (auto& one : job.slot_exchanges) EXPECT_TRUE(one->enter(broadcast, block).ok());
    if (!job.slot_exchanges[root]->complete()) {
      job.repair();
      job.slot_exchanges[root]->collect();
    }
    for (auto& one : job.slot_exchanges) {
      one->collect();
      ASSERT_TRUE(one->complete()) << "root " << root;
      one->leave();
    }
  }
}

TEST(LossySlotExchange, RankThatPublishesFirstAfterManyExchanges_asksForTheAcksThatItNeeds) {
  SlotExchanges job(3);
  broadcast_from(job, std::vector<std::uint32_t>(kSlots, 0));
  const Bytes block = pattern(8, 2);
  for (auto& one : job.slot_exchanges) {
    EXPECT_TRUE(one->enter(all_to_all(8), block).ok());
    EXPECT_TRUE(one->slot_busy());
  }
  EXPECT_TRUE(job.slot_exchanges[1]->unacked().empty()) << "rank 1 has published nothing yet";
  EXPECT_EQ(job.slot_exchanges[0]->awaited_acks().size(), 2u);
  EXPECT_EQ(job.slot_exchanges[1]->awaited_acks(), std::vector<Rank>{rank_of(2)})
      << "the entries of rank 0 acknowledge the exchanges before them";
  job.repair();
  for (auto& one : job.slot_exchanges) one->collect();
  for (auto& one : job.slot_exchanges) {
    one->collect();
    EXPECT_TRUE(one->complete());
  }
}

TEST(LossySlotExchange, EntryOfAnotherRank_provesThatTheSlotIsFree) {
  SlotExchanges job(3);
  broadcast_from(job, std::vector<std::uint32_t>(kSlots, 0));
  const Bytes block = pattern(8, 2);
  for (auto& one : job.slot_exchanges) EXPECT_TRUE(one->enter(all_to_all(8), block).ok());
  for (const std::uint32_t peer : {1u, 2u})
    job.slot_exchanges[0]->on_acked(rank_of(peer), job.slot_exchanges[peer]->acked());
  job.slot_exchanges[0]->collect();
  EXPECT_EQ(job.slot_exchanges[1]->collect().size(), 1u);
  EXPECT_TRUE(job.slot_exchanges[1]->slot_busy());
  job.slot_exchanges[1]->collect();
  EXPECT_FALSE(job.slot_exchanges[1]->slot_busy()) << "rank 0 knew that every rank has its entries";
}

TEST(LossySlotExchange, RootThatChanges_amongMoreRanksThanSlots_neverWaitsForever) {
  constexpr std::uint32_t kRanks = kSlots + 4;
  SlotExchanges job(kRanks);
  std::vector<std::uint32_t> roots;
  for (std::uint32_t i = 0; i < 3 * kRanks; ++i) roots.push_back(i % kRanks);
  broadcast_from(job, roots);
}

TEST(LossySlotExchange, GatheredEntriesAreSentToTheRootAlone) {
  SlotExchanges job(3);
  const Bytes block = pattern(250, 1);
  const device::ExchangeHeader gather{.flow = device::ExchangeHeader::Flow::all_to_root,
                                      .purpose = 4,
                                      .root = rank_of(1),
                                      .block_bytes = 250};
  for (auto& slot_exchange : job.slot_exchanges)
    EXPECT_TRUE(slot_exchange->enter(gather, block).ok());
  EXPECT_TRUE(job.network.queues[0].empty());
  EXPECT_TRUE(job.network.queues[2].empty());
  EXPECT_EQ(job.slot_exchanges[1]->collect().size(), 2u);
}

TEST(LossySlotExchange, EntryIsResentUntilEveryReaderHasIt) {
  SlotExchanges job(3);
  const Bytes block = pattern(250, 1);
  const device::ExchangeHeader broadcast{.flow = device::ExchangeHeader::Flow::root_to_all,
                                         .purpose = 1,
                                         .root = rank_of(0),
                                         .block_bytes = 250};
  job.network.lost = [](const LossyNetwork::Chunk& chunk, Rank to) {
    return to == rank_of(2) && chunk.epoch == 1;
  };
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    EXPECT_TRUE(job.slot_exchanges[0]->enter(broadcast, block).ok());
    EXPECT_TRUE(job.slot_exchanges[0]->complete());
    job.slot_exchanges[0]->leave();
  }
  // No rank has acknowledged the first exchange, so the slot of that exchange is still in use.
  EXPECT_TRUE(job.slot_exchanges[0]->enter(broadcast, block).ok());
  EXPECT_TRUE(job.slot_exchanges[0]->slot_busy());
  EXPECT_EQ(job.slot_exchanges[0]->unacked().size(), 2u);
  EXPECT_TRUE(job.slot_exchanges[2]->enter(broadcast, {}).ok());
  EXPECT_TRUE(job.slot_exchanges[2]->collect().empty());
  EXPECT_FALSE(job.slot_exchanges[0]->resend(9))
      << "the entry of this exchange was not published yet";
  EXPECT_FALSE(job.slot_exchanges[0]->resend(10)) << "the exchange has not begun";
  EXPECT_FALSE(job.slot_exchanges[1]->resend(1)) << "rank 1 published no entry in this exchange";
  job.network.lost = [](const LossyNetwork::Chunk&, Rank) { return false; };
  EXPECT_TRUE(job.slot_exchanges[0]->resend(job.slot_exchanges[2]->exchange()));
  ASSERT_EQ(job.slot_exchanges[2]->collect().size(), 1u);
  job.slot_exchanges[2]->leave();
  job.slot_exchanges[0]->on_acked(rank_of(2), job.slot_exchanges[2]->acked());
  EXPECT_TRUE(job.slot_exchanges[0]->slot_busy());
  job.slot_exchanges[0]->on_acked(rank_of(1), 1);
  job.slot_exchanges[0]->collect();
  EXPECT_FALSE(job.slot_exchanges[0]->slot_busy());
}

TEST(LossySlotExchange, ChunksThatFitNoEntry_areDropped) {
  SlotExchanges job(2);
  const Bytes block = pattern(250, 1);
  const auto send = [&](std::uint32_t epoch, std::uint32_t psn, Bytes payload) {
    job.network.queues[0].push_back({epoch, psn, rank_of(1), std::move(payload)});
  };
  const auto framed = [&](device::ExchangeHeader meeting, std::size_t bytes) {
    Bytes payload(device::slots::kSlotHeadBytes + bytes);
    device::slots::encode(meeting, payload.data());
    return payload;
  };
  send(1, 0, Bytes(3));  // payload without a header
  // A piece behind the last one of the block.
  send(1, 3, framed(all_to_all(250), 50));
  send(1, 0, framed(all_to_all(250), 99));                      // piece that is too short
  send(1, 0, framed(all_to_all(std::uint64_t{1} << 60), 100));  // block that is too long
  send(1 + kSlots, 0, framed(all_to_all(0), 0));                // exchange too far ahead
  Bytes unknown = framed(all_to_all(0), 0);
  unknown[0] = std::byte{9};
  send(1, 0, unknown);  // unknown kind of collective
  EXPECT_TRUE(job.slot_exchanges[0]->enter(all_to_all(250), block).ok());
  EXPECT_TRUE(job.slot_exchanges[0]->collect().empty());
  EXPECT_EQ(job.slot_exchanges[0]->rejected(), 6u);
  EXPECT_TRUE(job.slot_exchanges[1]->enter(all_to_all(250), block).ok());
  EXPECT_EQ(job.slot_exchanges[0]->collect().size(), 1u);
}

}  // namespace
}  // namespace tutti::test
