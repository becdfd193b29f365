#include "protocol/ready_barrier.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <tuple>
#include <vector>

#include "message_pump.hpp"

namespace tutti::protocol {
namespace {

RateVote vote_of(std::uint32_t rank, std::uint32_t lossy_rank) {
  return {.rate_kib = 1'000'000 - rank, .link_bound = rank == 1, .lossy = rank == lossy_rank};
}

/// All ranks of one ready barrier, which start in a random order.
class Ranks {
 public:
  Ranks(std::uint32_t size, std::uint64_t seed) : pump_(seed) {
    for (std::uint32_t r = 0; r < size; ++r) {
      machines_.emplace_back(rank_of(r), size, 5, vote_of(r, size - 1));
      unstarted_.push_back(r);
    }
  }

  /// Starts the ranks and delivers messages in a random order until no message is left.
  void run() {
    while (!unstarted_.empty() || !pump_.empty()) {
      const bool start = pump_.empty() || pump_.random().chance_ppm(200'000);
      if (start && !unstarted_.empty()) {
        start_one();
      } else if (const auto delivery = pump_.next()) {
        deliver(*delivery);
      }
      if (!unstarted_.empty()) expect_none_done();
    }
  }
  void expect_all_done() const {
    for (const ReadyBarrier& one : machines_) {
      EXPECT_TRUE(one.done());
      EXPECT_TRUE(one.awaited().empty());
    }
  }
  const std::vector<ReadyBarrier>& machines() const { return machines_; }
  std::uint64_t messages() const { return pump_.sent(MessageKind::barrier); }

 private:
  void start_one() {
    const std::size_t at = pump_.random().below(unstarted_.size());
    const std::uint32_t rank = unstarted_[at];
    unstarted_.erase(unstarted_.begin() + static_cast<std::ptrdiff_t>(at));
    machines_[rank].start(outbox_);
    pump_.collect(rank_of(rank), outbox_);
  }
  void deliver(const MessagePump::Delivery& delivery) {
    EXPECT_EQ(delivery.message.epoch, 5u);
    EXPECT_TRUE(machines_[index(delivery.to)].on_message(delivery.from, delivery.message.argument,
                                                         outbox_));
    pump_.collect(delivery.to, outbox_);
  }
  void expect_none_done() const {
    const bool any = std::any_of(machines_.begin(), machines_.end(),
                                 [](const ReadyBarrier& one) { return one.done(); });
    ASSERT_FALSE(any) << "a rank is done although another rank has not started";
  }

  std::vector<ReadyBarrier> machines_;
  std::vector<std::uint32_t> unstarted_;
  MessagePump pump_;
  Outbox outbox_;
};

TEST(ReadyBarrier, AllRanksAreDoneOnceTheLastHasStarted) {
  for (std::uint32_t size = 1; size <= 40; ++size) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      SCOPED_TRACE(testing::Message() << "size " << size << " seed " << seed);
      Ranks ranks(size, seed);
      ranks.run();
      ranks.expect_all_done();
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(ReadyBarrier, AwaitedRanks_areThoseWhoseMessagesHaveNotArrived) {
  Outbox outbox;
  ReadyBarrier folds(Rank{0}, 5, 1);  // rank 4 folds into rank 0, whose partners are 1 and 2
  folds.start(outbox);
  EXPECT_EQ(folds.awaited(), (std::vector<Rank>{Rank{4}, Rank{1}, Rank{2}}));
  EXPECT_TRUE(folds.on_message(Rank{2}, 1, outbox));
  EXPECT_EQ(folds.awaited(), (std::vector<Rank>{Rank{4}, Rank{1}}));
  ReadyBarrier folded(Rank{4}, 5, 1);
  folded.start(outbox);
  EXPECT_EQ(folded.awaited(), (std::vector<Rank>{Rank{0}}));
}

TEST(ReadyBarrier, MessageCount_isThatOfRecursiveDoubling_forAnyRankCount) {
  for (std::uint32_t size = 1; size <= 40; ++size) {
    Ranks ranks(size, size);
    ranks.run();
    const std::uint32_t power = std::bit_floor(size);
    const auto rounds = static_cast<std::uint32_t>(std::countr_zero(power));
    EXPECT_EQ(ranks.machines()[0].rounds(), rounds);
    EXPECT_EQ(ranks.messages(), power * rounds + 2 * (size - power)) << "size " << size;
  }
}

TEST(ReadyBarrier, EveryRankGetsTheCombinedVote) {
  for (std::uint32_t size = 1; size <= 40; ++size) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      Ranks ranks(size, seed);
      ranks.run();
      for (const ReadyBarrier& one : ranks.machines()) {
        EXPECT_EQ(one.vote().rate_kib, 1'000'000 - (size - 1));
        EXPECT_EQ(one.vote().link_bound, size > 1);
        EXPECT_TRUE(one.vote().lossy);
      }
    }
  }
}

/// Explores every order of starts and deliveries among a few ranks. Orders that give every rank the
/// same history lead to the same state, which is explored once.
class EveryOrder {
 public:
  explicit EveryOrder(std::uint32_t size) : size_(size) {}

  void explore() { step({}); }
  std::uint64_t ends() const { return ends_; }

 private:
  struct Event {
    std::uint32_t to;
    /// Rank that sends the message of this event; equal to `to` if the event is the start of rank
    /// `to`.
    std::uint32_t from;
    std::uint64_t argument;
    friend auto operator<=>(const Event&, const Event&) = default;
  };
  using History = std::vector<Event>;

  /// Splits a history into the events of each rank, in order. The order of events at different
  /// ranks is dropped, because no rank can observe it.
  static std::vector<History> views(const History& history, std::uint32_t size) {
    std::vector<History> all(size);
    for (const Event& event : history) all[event.to].push_back(event);
    return all;
  }

  void step(const History& history) {
    if (!seen_.insert(views(history, size_)).second) return;
    std::vector<ReadyBarrier> machines;
    for (std::uint32_t r = 0; r < size_; ++r) machines.emplace_back(rank_of(r), size_, 1);
    std::multiset<Event> possible;
    for (std::uint32_t r = 0; r < size_; ++r) possible.insert({r, r, 0});
    Outbox outbox;
    for (const Event& event : history) {
      possible.erase(possible.find(event));
      ReadyBarrier& machine = machines[event.to];
      if (event.from == event.to) {
        machine.start(outbox);
      } else {
        ASSERT_TRUE(machine.on_message(rank_of(event.from), event.argument, outbox));
      }
      for (const Outbox::Item& item : outbox.items()) {
        possible.insert({index(item.to), event.to, item.message.argument});
      }
      outbox.clear();
    }
    std::uint32_t started = 0;
    std::uint32_t done = 0;
    for (const ReadyBarrier& machine : machines) {
      started += machine.started() ? 1 : 0;
      done += machine.done() ? 1 : 0;
    }
    if (started < size_) {
      ASSERT_EQ(done, 0u);
    }
    if (possible.empty()) {
      ++ends_;
      ASSERT_EQ(done, size_);
    }
    for (const Event& event : possible) {
      History next = history;
      next.push_back(event);
      step(next);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  std::uint32_t size_;
  std::uint64_t ends_ = 0;
  std::set<std::vector<History>> seen_;
};

TEST(ReadyBarrier, Barrier_ofUpToFourRanks_completesInEveryOrderOfStartsAndMessages) {
  for (std::uint32_t size = 1; size <= 4; ++size) {
    EveryOrder orders(size);
    orders.explore();
    EXPECT_GE(orders.ends(), 1u) << "size " << size;
  }
}

TEST(ReadyBarrier, ImpossibleMessagesAreRefused) {
  Outbox outbox;
  ReadyBarrier zero(rank_of(0), 6, 1);
  EXPECT_FALSE(zero.on_message(rank_of(2), 0, outbox));  // wrong: rank 0 expects rank 1 in round 0
  EXPECT_FALSE(zero.on_message(rank_of(1), 1, outbox));  // wrong: rank 0 expects rank 2 in round 1
  EXPECT_FALSE(zero.on_message(rank_of(1), 2, outbox));  // wrong: only rounds 0 and 1 exist
  // Wrong sender: six ranks are two more than a power of two. Of these two, rank 4 reports to rank
  // 0, and rank 5 reports to rank 1.
  EXPECT_FALSE(zero.on_message(rank_of(5), 32, outbox));
  // Wrong message: round number 33 announces that all ranks are ready. Only ranks 4 and 5 get this
  // announcement.
  EXPECT_FALSE(zero.on_message(rank_of(4), 33, outbox));
  EXPECT_TRUE(zero.on_message(rank_of(4), 32, outbox));
  EXPECT_TRUE(outbox.empty());
  ReadyBarrier folded(rank_of(5), 6, 1);
  folded.start(outbox);
  EXPECT_FALSE(folded.on_message(rank_of(0), 33, outbox));
  EXPECT_FALSE(folded.on_message(rank_of(4), 0, outbox));
  EXPECT_FALSE(folded.done());
  EXPECT_TRUE(folded.on_message(rank_of(1), 33, outbox));
  EXPECT_TRUE(folded.done());
}

}  // namespace
}  // namespace tutti::protocol
