// Tests a receive worker and its receive team step by step. A hook of the queue pair runs the
// actions of another thread in the middle of a batch.
#include "engine/receive/receive_worker.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/shared_bits.hpp"
#include "engine/receive/receive_team.hpp"
#include "fake_endpoint.hpp"

namespace tutti::engine {
namespace {

constexpr std::uint32_t kChunk = 64;
constexpr Instant kNow{1'000'000};

struct Datagram {
  std::uint32_t epoch;
  std::uint32_t psn;
  Rank source;
  std::vector<std::byte> payload;
};

class FakePair final : public device::MulticastQueuePair {
 public:
  std::deque<Datagram> queue{};
  std::function<bool()> in_place = [] { return true; };
  std::function<void()> in_poll = [] {};
  device::PlacementResolver* guide = nullptr;

  void arrive(std::uint32_t epoch, std::uint32_t psn, std::uint32_t source, std::byte fill) {
    queue.push_back({epoch, psn, rank_of(source), std::vector<std::byte>(kChunk, fill)});
  }

  Result<std::uint32_t> post(const device::ChunkRun&) override { return std::uint32_t{0}; }
  std::uint64_t unsent_bytes() override { return 0; }
  bool set_resolver(device::PlacementResolver* its_guide) override {
    guide = its_guide;
    return true;
  }
  std::size_t poll(std::span<device::ReceivedChunk> chunks) override {
    in_poll();
    std::size_t filled = 0;
    for (; filled < chunks.size() && !queue.empty(); ++filled) {
      batch_.push_back(std::move(queue.front()));
      queue.pop_front();
      const Datagram& one = batch_.back();
      chunks[filled] = {one.epoch, one.psn, one.source, one.payload, nullptr};
    }
    return filled;
  }
  bool copy_and_verify(const device::ReceivedChunk& chunk, std::byte* destination) override {
    std::memcpy(destination, chunk.payload.data(), chunk.payload.size());
    return in_place();
  }
  void release() override { batch_.clear(); }
  Status post_probe(std::uint32_t, std::uint32_t) override { return {}; }

 private:
  std::deque<Datagram> batch_;
};

/// Two blocks of 300 chunks, from ranks 0 and 1. Of each block, subgroup 0 carries chunks 0 to 191
/// and subgroup 1 carries chunks 192 to 299.
class Receiving : public testing::Test {
 protected:
  static constexpr std::uint32_t kBlockChunks = 300;
  static constexpr std::uint32_t kEpoch = 7;

  explicit Receiving(std::uint32_t workers = 1)
      : team_(endpoint_, workers, kEpoch - 1, 10 * kChunk) {
    team_.on_news([this] { ++owner_wakes_; });
    for (std::uint32_t w = 0; w < workers; ++w) {
      team_.worker(w).on_rouse([this] { ++worker_wakes_; });
    }
    layout_ = protocol::BlockLayout(kChunk, 2, std::uint64_t{kBlockChunks} * kChunk);
    for (std::uint32_t b = 0; b < 2; ++b) {
      EXPECT_TRUE(layout_.add(rank_of(b), std::uint64_t{b} * kBlockChunks * kChunk,
                              std::uint64_t{kBlockChunks} * kChunk));
    }
    map_ = std::make_unique<protocol::ChunkMap>(layout_);
    read_locked_ = SharedBitmap(layout_.chunk_count());
    buffer_.resize(std::size_t{2} * kBlockChunks * kChunk);
  }

  ReceiveView view() {
    return {.epoch = kEpoch,
            .layout = &layout_,
            .map = map_.get(),
            .read_locked = &read_locked_,
            .buffer = buffer_.data()};
  }
  std::byte at(std::uint32_t psn) const { return buffer_[std::size_t{psn} * kChunk]; }
  observe::Counters fold() {
    observe::Counters sum;
    team_.fold(sum);
    return sum;
  }

  test::FakeEndpoint<FakePair> endpoint_{2};
  FakePair& first_ = endpoint_.pairs[0];
  ReceiveTeam team_;
  ReceiveWorker& worker_ = team_.worker(0);
  int owner_wakes_ = 0;
  int worker_wakes_ = 0;
  protocol::BlockLayout layout_;
  std::unique_ptr<protocol::ChunkMap> map_;
  SharedBitmap read_locked_;
  std::vector<std::byte> buffer_;
};

TEST_F(Receiving, ValidChunksArePlacedMarkedAndCounted) {
  team_.publish(view());
  first_.arrive(kEpoch, 5, 0, std::byte{5});
  first_.arrive(kEpoch, 5, 0, std::byte{6});                 // duplicate
  first_.arrive(kEpoch, 3, 0, std::byte{3});                 // chunk that arrives out of order
  first_.arrive(kEpoch, 200, 0, std::byte{4});               // chunk of another subgroup
  first_.arrive(kEpoch - 1, 6, 0, std::byte{4});             // chunk of an earlier collective
  first_.arrive(kEpoch, kBlockChunks + 1, 1, std::byte{9});  // chunk of the second block
  EXPECT_TRUE(worker_.poll(kNow));
  EXPECT_FALSE(worker_.poll(kNow));
  EXPECT_EQ(at(5), std::byte{5});
  EXPECT_EQ(at(3), std::byte{3});
  EXPECT_EQ(at(kBlockChunks + 1), std::byte{9});
  EXPECT_EQ(map_->marked(), 3u);
  EXPECT_EQ(map_->horizon(0, 0), 6u);
  EXPECT_TRUE(team_.take_news());
  EXPECT_FALSE(team_.take_news());
  EXPECT_EQ(owner_wakes_, 0) << "chunks that are not urgent must not wake the owner";
  const auto& arrivals = team_.take_arrivals();
  ASSERT_EQ(arrivals.size(), 2u);
  EXPECT_EQ(arrivals[0].bytes, 2 * kChunk);
  EXPECT_EQ(arrivals[1].block_index, 1u);
  const observe::Counters counters = fold();
  EXPECT_EQ(counters.chunks_received, 3u);
  EXPECT_EQ(counters.chunks_received_by_workers, 3u);
  EXPECT_EQ(counters.receive_worker_batches, 1u);
  EXPECT_EQ(counters.chunks_duplicate, 1u);
  EXPECT_EQ(counters.chunks_out_of_order, 1u);
  EXPECT_EQ(counters.chunks_malformed, 1u);
  EXPECT_EQ(counters.chunks_stale, 1u);
  EXPECT_EQ(fold().chunks_received, 0u) << "counters must be folded only once";
}

TEST_F(Receiving, IntactChunkThatDoesNotFitTheLayout_isReportedToTheOwner) {
  team_.publish(view());
  first_.arrive(kEpoch, 200, 0, std::byte{4});      // chunk of another subgroup
  first_.arrive(kEpoch - 1, 600, 1, std::byte{4});  // chunk of an earlier collective
  worker_.poll(kNow);
  EXPECT_FALSE(team_.take_misfit().has_value());
  first_.in_place = [] { return false; };
  first_.arrive(kEpoch, 600, 1, std::byte{4});  // damaged chunk beyond the last PSN
  worker_.poll(kNow);
  EXPECT_FALSE(team_.take_misfit().has_value()) << "a damaged header must not fail the collective";
  EXPECT_EQ(owner_wakes_, 0);
  first_.in_place = [] { return true; };
  first_.arrive(kEpoch, 600, 1, std::byte{4});
  worker_.poll(kNow);
  EXPECT_EQ(owner_wakes_, 1);
  const auto misfit = team_.take_misfit();
  ASSERT_TRUE(misfit.has_value());
  EXPECT_EQ(misfit->epoch, kEpoch);
  EXPECT_EQ(misfit->source, Rank{1});
  EXPECT_EQ(misfit->bytes, kChunk);
  EXPECT_FALSE(team_.take_misfit().has_value()) << "a misfit must be reported once";
  EXPECT_EQ(map_->marked(), 0u);
  EXPECT_EQ(fold().chunks_malformed, 3u);
}

TEST_F(Receiving, IntactChunkOfACollectiveWithoutMulticast_isReportedToTheOwner) {
  team_.publish({.epoch = kEpoch});
  first_.arrive(kEpoch, 0, 0, std::byte{4});
  worker_.poll(kNow);
  EXPECT_EQ(owner_wakes_, 1);
  const auto misfit = team_.take_misfit();
  ASSERT_TRUE(misfit.has_value());
  EXPECT_EQ(misfit->epoch, kEpoch);
  EXPECT_EQ(misfit->source, Rank{0});
  EXPECT_EQ(fold().chunks_malformed, 1u);
}

TEST_F(Receiving, UnexpectedChunkThatDoesNotFit_isReportedWhenItsCollectiveBegins) {
  first_.arrive(kEpoch, 4, 1, std::byte{4});  // chunk from a rank other than the block's root
  worker_.poll(kNow);
  EXPECT_FALSE(team_.take_misfit().has_value());
  team_.publish(view());
  worker_.poll(kNow);
  const auto misfit = team_.take_misfit();
  ASSERT_TRUE(misfit.has_value());
  EXPECT_EQ(misfit->epoch, kEpoch);
  EXPECT_EQ(misfit->source, Rank{1});
  EXPECT_EQ(fold().chunks_malformed, 1u);
}

TEST_F(Receiving, LastChunks_wakeTheOwner_otherChunksWakeItOnlyOnRequest) {
  team_.publish(view());
  first_.arrive(kEpoch, 1, 0, std::byte{1});
  worker_.poll(kNow);
  EXPECT_EQ(owner_wakes_, 0);
  endpoint_.pairs[1].arrive(kEpoch, kBlockChunks - 1, 0, std::byte{1});  // last chunk of a block
  worker_.poll(kNow);
  EXPECT_EQ(owner_wakes_, 1);
  team_.set_eager(true);
  first_.arrive(kEpoch, 2, 0, std::byte{1});
  worker_.poll(kNow);
  EXPECT_EQ(owner_wakes_, 2);
  team_.set_eager(false);
  // All chunks have arrived except chunk 10, which then arrives last.
  for (std::uint32_t b = 0; b < 2; ++b) map_->mark_run(b, {b * 300 + 11, b * 300 + 300});
  map_->mark_run(1, {300, 311});
  map_->mark_run(0, {0, 10});
  first_.arrive(kEpoch, 10, 0, std::byte{1});
  worker_.poll(kNow);
  EXPECT_TRUE(map_->complete());
  EXPECT_EQ(owner_wakes_, 3);
}

TEST_F(Receiving, ChunkLockedByARead_isNotPlaced) {
  team_.publish(view());
  read_locked_.set_atomic(8);
  EXPECT_TRUE(team_.passed(team_.grace())) << "a grace period without a batch must pass at once";
  first_.arrive(kEpoch, 8, 0, std::byte{8});
  worker_.poll(kNow);
  EXPECT_EQ(at(8), std::byte{0});
  EXPECT_EQ(map_->marked(), 0u);
  EXPECT_EQ(fold().chunks_duplicate, 1u);
  read_locked_.clear_atomic(8);
  first_.arrive(kEpoch, 8, 0, std::byte{8});
  worker_.poll(kNow);
  EXPECT_EQ(at(8), std::byte{8});
}

TEST_F(Receiving, GracePeriodBeforeARead_endsOnlyAfterTheRunningBatch) {
  team_.publish(view());
  ReceiveTeam::GracePeriod grace;
  first_.in_place = [&] {
    read_locked_.set_atomic(8);  // a READ locks chunk 8 after the worker has begun its batch
    team_.set_eager(true);
    grace = team_.grace();
    EXPECT_FALSE(team_.passed(grace));
    return true;
  };
  first_.arrive(kEpoch, 8, 0, std::byte{8});
  worker_.poll(kNow);
  EXPECT_TRUE(team_.passed(grace));
  EXPECT_EQ(owner_wakes_, 1) << "the owner that waits for the batch must be woken at its end";
  EXPECT_TRUE(team_.has_news());
  EXPECT_TRUE(map_->has(0, 8)) << "the batch has placed the chunk, so the READ is not needed";
}

TEST_F(Receiving, UcMessage_isPlacedInTheBufferOnlyIfItsChunkIsMissing) {
  using Where = device::Placement::Where;
  team_.publish(view());
  map_->mark_run(0, {5, 6});
  read_locked_.set_atomic(8);
  for (const bool begins : {true, false}) {
    first_.in_poll = [&] {
      const auto where = [&](std::uint32_t epoch, std::uint32_t psn, std::uint32_t source,
                             std::size_t bytes = kChunk) {
        return first_.guide->landing({epoch, psn, rank_of(source), bytes}, begins);
      };
      const device::Placement right = where(kEpoch, 4, 0);
      EXPECT_EQ(right.where, Where::buffer);
      EXPECT_EQ(right.at, buffer_.data() + 4 * kChunk);
      EXPECT_EQ(where(kEpoch, 5, 0).where, Where::nowhere) << "it is here";
      EXPECT_EQ(where(kEpoch, 8, 0).where, Where::nowhere) << "a READ of the chunk is under way";
      EXPECT_EQ(where(kEpoch, 4, 1).where, Where::staging) << "the sender is not the block's root";
      EXPECT_EQ(where(kEpoch, 200, 0).where, Where::nowhere)
          << "the chunk belongs to another subgroup";
      EXPECT_EQ(where(kEpoch, 4, 0, kChunk + 1).where, Where::staging) << "too long";
      EXPECT_EQ(where(kEpoch - 1, 4, 0).where, Where::nowhere) << "stale";
      EXPECT_EQ(where(kEpoch + 1, 4, 0).where, Where::staging) << "early";
    };
    worker_.poll(kNow);
    const observe::Counters counters = fold();
    EXPECT_EQ(counters.chunks_duplicate, begins ? 2u : 0u) << "a message is counted once";
    EXPECT_EQ(counters.chunks_malformed, begins ? 1u : 0u)
        << "a chunk in staging is counted when it is complete";
    EXPECT_EQ(counters.chunks_stale, begins ? 1u : 0u);
  }
  EXPECT_EQ(first_.guide->landing({kEpoch, 4, rank_of(0), kChunk}, true).where, Where::nowhere)
      << "the view must not be used after the poll";
}

TEST_F(Receiving, PlacementInAPoll_extendsTheGracePeriodToTheEndOfThePoll) {
  team_.publish(view());
  first_.in_poll = [&] {
    EXPECT_TRUE(team_.passed(team_.grace()))
        << "a poll without a placement must not delay the grace period";
  };
  worker_.poll(kNow);
  ReceiveTeam::GracePeriod grace;
  first_.in_poll = [&] {
    EXPECT_NE(first_.guide->landing({kEpoch, 4, rank_of(0), kChunk}, true).at, nullptr);
    team_.set_eager(true);
    team_.publish({.state = ReceiveView::State::closed, .epoch = kEpoch});
    grace = team_.grace();
    EXPECT_FALSE(team_.passed(grace)) << "the buffer may still be written";
  };
  EXPECT_FALSE(worker_.poll(kNow)) << "no message is complete";
  EXPECT_TRUE(team_.passed(grace));
  EXPECT_EQ(owner_wakes_, 1) << "the owner that waits for the poll must be woken at its end";
  first_.in_poll = [&] {
    EXPECT_EQ(first_.guide->landing({kEpoch, 4, rank_of(0), kChunk}, false).at, nullptr);
  };
  worker_.poll(kNow);
}

TEST_F(Receiving, DamagedChunk_isNotMarked_andIsAcceptedWhenItArrivesAgain) {
  team_.publish(view());
  first_.in_place = [] { return false; };
  first_.arrive(kEpoch, 8, 0, std::byte{0xbd});
  worker_.poll(kNow);
  EXPECT_EQ(map_->marked(), 0u);
  EXPECT_EQ(map_->horizon(0, 0), 0u);
  first_.in_place = [] { return true; };
  first_.arrive(kEpoch, 8, 0, std::byte{8});
  worker_.poll(kNow);
  EXPECT_EQ(at(8), std::byte{8});
  EXPECT_EQ(fold().chunks_damaged, 1u);
}

TEST_F(Receiving, FailedCollectiveReleasesItsBufferAfterTheBatch) {
  team_.publish(view());
  ReceiveTeam::GracePeriod grace;
  first_.in_place = [&] {
    team_.publish({.state = ReceiveView::State::closed, .epoch = kEpoch});
    grace = team_.grace();
    EXPECT_FALSE(team_.passed(grace));
    return true;
  };
  first_.arrive(kEpoch, 1, 0, std::byte{1});
  worker_.poll(kNow);
  EXPECT_TRUE(team_.passed(grace));
  first_.in_place = [] { return true; };
  first_.arrive(kEpoch, 2, 0, std::byte{2});
  first_.arrive(kEpoch + 1, 2, 0, std::byte{2});
  EXPECT_TRUE(worker_.poll(kNow))
      << "chunks of a failed collective must be read, or they would keep the thread awake";
  EXPECT_EQ(at(2), std::byte{0});
  EXPECT_FALSE(worker_.holds_unexpected());
}

TEST_F(Receiving, EndedOperation_isDestroyedOnlyAfterTheRunningBatch) {
  team_.publish(view());
  auto operation = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = operation;
  first_.in_place = [&] {
    team_.publish({.state = ReceiveView::State::over, .epoch = kEpoch});
    if (operation) team_.retire(std::move(operation));
    team_.retire(nullptr);
    EXPECT_FALSE(alive.expired());
    return true;
  };
  first_.arrive(kEpoch, 1, 0, std::byte{1});
  worker_.poll(kNow);
  team_.retire(nullptr);
  EXPECT_TRUE(alive.expired());
  first_.arrive(kEpoch, 2, 0, std::byte{2});
  worker_.poll(kNow);
  EXPECT_EQ(at(2), std::byte{0}) << "no chunk may be placed into a released buffer";
  EXPECT_EQ(fold().chunks_stale, 1u);
}

TEST_F(Receiving, UnexpectedChunksArePlacedWhenTheirCollectiveBegins) {
  first_.arrive(kEpoch, 4, 0, std::byte{4});
  first_.arrive(kEpoch + 1, 4, 0, std::byte{5});
  worker_.poll(kNow);
  EXPECT_FALSE(worker_.poll(kNow));
  EXPECT_TRUE(worker_.holds_unexpected());
  EXPECT_FALSE(worker_.due());
  team_.publish(view());
  EXPECT_EQ(worker_wakes_, 1) << "a new view must wake the worker, because no datagram will";
  EXPECT_TRUE(worker_.due());
  EXPECT_TRUE(worker_.poll(kNow));
  EXPECT_FALSE(worker_.due());
  EXPECT_EQ(at(4), std::byte{4});
  EXPECT_EQ(map_->marked(), 1u);
  EXPECT_TRUE(worker_.holds_unexpected()) << "the chunk of the next collective must be kept";
  team_.publish({.state = ReceiveView::State::over, .epoch = kEpoch + 2});
  EXPECT_TRUE(worker_.poll(kNow));
  EXPECT_FALSE(worker_.holds_unexpected());
  const observe::Counters counters = fold();
  EXPECT_EQ(counters.chunks_unexpected, 2u);
  EXPECT_EQ(counters.chunks_received, 1u);
  EXPECT_EQ(counters.chunks_stale, 1u) << "the kept chunk is stale once its collective is over";
}

TEST_F(Receiving, UnexpectedChunksBeyondTheLimit_areDropped) {
  for (std::uint32_t psn = 0; psn < 12; ++psn) first_.arrive(kEpoch, psn, 0, std::byte{1});
  worker_.poll(kNow);
  const observe::Counters counters = fold();
  EXPECT_EQ(counters.chunks_unexpected, 10u);
  EXPECT_EQ(counters.chunks_unexpected_dropped, 2u);
}

TEST_F(Receiving, UnexpectedChunksWithoutPayload_areLimitedInNumber) {
  for (std::uint32_t psn = 0; psn < 12; ++psn) {
    first_.arrive(kEpoch, psn, 0, std::byte{1});
    first_.queue.back().payload.clear();
  }
  worker_.poll(kNow);
  const observe::Counters counters = fold();
  EXPECT_EQ(counters.chunks_unexpected, 10u);
  EXPECT_EQ(counters.chunks_unexpected_dropped, 2u);
}

TEST_F(Receiving, DuplicatesOfUnexpectedChunks_takeNoRoom) {
  for (int copy = 0; copy < 12; ++copy) first_.arrive(kEpoch, 4, 0, std::byte{4});
  first_.arrive(kEpoch, 5, 0, std::byte{5});
  first_.arrive(kEpoch + 1, 4, 0, std::byte{6});
  worker_.poll(kNow);
  team_.publish(view());
  worker_.poll(kNow);
  EXPECT_EQ(at(4), std::byte{4});
  EXPECT_EQ(at(5), std::byte{5});
  const observe::Counters counters = fold();
  EXPECT_EQ(counters.chunks_unexpected, 3u);
  EXPECT_EQ(counters.chunks_duplicate, 11u);
  EXPECT_EQ(counters.chunks_unexpected_dropped, 0u);
}

TEST_F(Receiving, DrainRequestIsAnsweredWhenTheQueueIsEmpty) {
  team_.publish(view());
  worker_.poll(kNow);
  first_.arrive(kEpoch, 1, 0, std::byte{1});
  const std::uint64_t look = team_.request_drain();
  EXPECT_EQ(worker_wakes_, 1);
  EXPECT_TRUE(worker_.due());
  EXPECT_FALSE(team_.looked(look));
  worker_.poll(kNow);
  EXPECT_TRUE(team_.polled_once(look));
  EXPECT_FALSE(team_.looked(look)) << "more chunks may have arrived meanwhile";
  EXPECT_EQ(owner_wakes_, 1);
  worker_.poll(kNow);
  EXPECT_TRUE(team_.looked(look));
  EXPECT_EQ(owner_wakes_, 2);
  EXPECT_FALSE(worker_.due());
}

TEST_F(Receiving, DrainRequestDuringABatch_isAnsweredOnlyByTheNextPoll) {
  team_.publish(view());
  std::uint64_t look = 0;
  first_.in_place = [&] {
    look = team_.request_drain();
    return true;
  };
  first_.arrive(kEpoch, 1, 0, std::byte{1});
  worker_.poll(kNow);
  EXPECT_FALSE(team_.polled_once(look));
  worker_.poll(kNow);
  EXPECT_TRUE(team_.polled_once(look));
  EXPECT_TRUE(team_.looked(look));
}

// A search for missing chunks must not return an empty run while a worker marks chunks. An empty
// run would end the search, so that all missing chunks behind it would count as present.
TEST(SharedBits, SearchForAClearRun_whileAWorkerSetsBits_neverReturnsAnEmptyRun) {
  constexpr std::uint32_t kBits = 1 << 16;
  for (int round = 0; round < 20; ++round) {
    SharedBitmap bits(kBits);
    const std::jthread worker([&] {
      for (std::uint32_t bit = 0; bit + 1 < kBits; ++bit) bits.set_atomic(bit);
    });
    Range run;
    std::uint32_t looks = 0;
    while (run.first + 1 < kBits) {
      run = bits.first_clear_run({0, kBits});
      ++looks;
      ASSERT_FALSE(run.empty()) << "at bit " << run.first << ", look " << looks;
    }
  }
}

TEST(SharedBits, RunsOfBits_acrossWords_areFound) {
  SharedBitmap bits(200);
  EXPECT_EQ(bits.first_clear_run({0, 200}), (Range{0, 200}));
  EXPECT_TRUE(bits.set(70));
  EXPECT_FALSE(bits.set(70));
  EXPECT_TRUE(bits.set_atomic(71));
  EXPECT_FALSE(bits.set_atomic(71));
  EXPECT_EQ(bits.first_clear_run({0, 200}), (Range{0, 70}));
  EXPECT_EQ(bits.first_clear_run({70, 200}), (Range{72, 200}));
  EXPECT_TRUE(bits.first_clear_run({70, 72}).empty());
  EXPECT_EQ(bits.first_clear_run({71, 73}), (Range{72, 73}));
  EXPECT_EQ(bits.set_word_atomic({64, 128}), 62u);
  EXPECT_EQ(bits.set_word_atomic({130, 140}), 10u);
  EXPECT_EQ(bits.first_clear_run({64, 200}), (Range{128, 130}));
  bits.clear_atomic(100);
  EXPECT_EQ(bits.first_clear_run({64, 128}), (Range{100, 101}));
}

class TwoReceiving : public Receiving {
 protected:
  TwoReceiving() : Receiving(2) {}
};

TEST_F(TwoReceiving, DrainRequest_isAnsweredOnceEveryWorkerHasPolled) {
  team_.publish(view());
  const std::uint64_t look = team_.request_drain();
  team_.worker(1).poll(kNow);
  EXPECT_FALSE(team_.looked(look));
  team_.worker(0).poll(kNow);
  EXPECT_TRUE(team_.looked(look));
}

TEST_F(TwoReceiving, EachWorkerReceivesItsOwnSubgroups) {
  team_.publish(view());
  first_.arrive(kEpoch, 1, 0, std::byte{1});
  endpoint_.pairs[1].arrive(kEpoch, 192, 0, std::byte{2});
  team_.worker(1).poll(kNow);
  EXPECT_EQ(at(192), std::byte{2});
  EXPECT_EQ(at(1), std::byte{0});
  team_.worker(0).poll(kNow);
  EXPECT_EQ(at(1), std::byte{1});
  EXPECT_EQ(fold().chunks_received_by_workers, 2u);
}

}  // namespace
}  // namespace tutti::engine
