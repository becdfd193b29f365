#include "protocol/credits/credit_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "message_pump.hpp"
#include "protocol/sequencer.hpp"

namespace tutti::protocol {
namespace {

constexpr std::uint32_t kEpoch = 9;
constexpr std::uint32_t kPulsesInFlight = 4;

BlockLayout gather(std::uint32_t ranks, std::uint32_t chunks) {
  BlockLayout layout(1, 1, chunks);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    EXPECT_TRUE(layout.add(rank_of(r), std::uint64_t{r} * chunks, chunks));
  }
  return layout;
}

/// The senders and receivers of an Allgather with their credits. Each receiver has a queue of
/// arrived chunks that it has not read. The queue must never be longer than the window.
class Stream {
 public:
  Stream(std::uint32_t size, std::uint32_t chains, std::uint32_t chunks, std::uint32_t window,
         std::uint32_t loss_ppm, std::uint64_t seed)
      : size_(size),
        loss_ppm_(loss_ppm),
        layout_(gather(size, chunks)),
        sequencer_(size, chains),
        pump_(seed) {
    for (std::uint32_t r = 0; r < size; ++r) {
      nodes_.push_back(std::make_unique<Node>(rank_of(r), size, layout_, chains, window));
      nodes_[r]->map.mark_run(r, layout_.blocks()[r].psns);
      nodes_[r]->cursor = layout_.blocks()[r].psns.first;
      nodes_[r]->active = sequencer_.first(rank_of(r));
    }
  }

  /// Takes random steps until every rank has consumed every chunk, and delivers all messages;
  /// false if no rank can continue.
  bool run() {
    for (std::uint32_t r = 0; r < size_; ++r) consume(r);
    while (!finished()) {
      if (!step()) return false;
    }
    while (const auto delivery = pump_.next()) deliver(*delivery);
    return true;
  }
  /// Sets the probability, in millionths, that a step makes a random rank declare all its missing
  /// chunks lost.
  void false_cutoffs(std::uint32_t ppm) { false_cutoff_ppm_ = ppm; }
  std::uint32_t longest_queue() const { return longest_queue_; }
  bool needed() const { return nodes_[0]->credits.needed(); }
  std::uint64_t credits() const { return pump_.sent(MessageKind::credit); }
  std::uint64_t grants() const { return pump_.sent(MessageKind::grant); }
  const BlockLayout& layout() const { return layout_; }

 private:
  struct Node {
    Node(Rank me, std::uint32_t size, const BlockLayout& layout, std::uint32_t chains,
         std::uint32_t window)
        : map(layout),
          fetch(me, size, kEpoch, map, {}),
          credits(me, size, kEpoch, map, chains, window, kPulsesInFlight) {}

    ChunkMap map;
    FetchRing fetch;
    CreditWindow credits;
    std::uint32_t cursor = 0;  ///< PSN of the next chunk to send
    bool active = false;
    std::deque<std::uint32_t> queue;  ///< arrived chunks that this rank has not read yet
    std::vector<std::uint32_t> lost;  ///< lost chunks that this rank has not declared lost yet
  };

  bool can_send(std::uint32_t r) const {
    const Node& node = *nodes_[r];
    return node.active && node.cursor < node.credits.limit(r);
  }
  bool finished() const {
    for (std::uint32_t r = 0; r < size_; ++r) {
      const Node& node = *nodes_[r];
      if (node.cursor < layout_.blocks()[r].psns.last || !node.queue.empty() ||
          !node.lost.empty()) {
        return false;
      }
    }
    return true;
  }
  /// Takes one random step out of those that are possible; returns false if no step is possible.
  bool step() {
    std::vector<std::uint32_t> senders;
    std::vector<std::uint32_t> readers;
    std::vector<std::uint32_t> losers;
    for (std::uint32_t r = 0; r < size_; ++r) {
      if (can_send(r)) senders.push_back(r);
      if (!nodes_[r]->queue.empty()) readers.push_back(r);
      if (!nodes_[r]->lost.empty()) losers.push_back(r);
    }
    const auto pick = [&](const std::vector<std::uint32_t>& from) {
      return from[pump_.random().below(from.size())];
    };
    // Senders run more often than receivers, so that the receive queues fill up. A sender with one
    // credit too many would then overfill a queue.
    if (pump_.random().chance_ppm(false_cutoff_ppm_)) {
      declare_all(static_cast<std::uint32_t>(pump_.random().below(size_)));
    } else if (!senders.empty() && pump_.random().chance_ppm(600'000)) {
      send(pick(senders));
    } else if (!readers.empty() && pump_.random().chance_ppm(500'000)) {
      receive(pick(readers));
    } else if (const auto delivery = pump_.next()) {
      deliver(*delivery);
    } else if (!readers.empty()) {
      receive(pick(readers));
    } else if (!senders.empty()) {
      send(pick(senders));
    } else if (!losers.empty()) {
      declare(pick(losers));
    } else {
      return send_tail_probes();
    }
    return true;
  }
  void send(std::uint32_t r) {
    Node& node = *nodes_[r];
    const std::uint32_t psn = node.cursor++;
    for (std::uint32_t to = 0; to < size_; ++to) {
      if (to == r) continue;
      if (pump_.random().chance_ppm(loss_ppm_)) {
        nodes_[to]->lost.push_back(psn);
        continue;
      }
      nodes_[to]->queue.push_back(psn);
      longest_queue_ =
          std::max(longest_queue_, static_cast<std::uint32_t>(nodes_[to]->queue.size()));
    }
    const Rank next = sequencer_.successor(rank_of(r));
    if (node.cursor == layout_.blocks()[r].psns.last && next != kNoRank) {
      nodes_[index(next)]->active = true;
    }
  }
  void receive(std::uint32_t r) {
    const std::uint32_t psn = nodes_[r]->queue.front();
    nodes_[r]->queue.pop_front();
    mark(r, psn);
  }
  void mark(std::uint32_t r, std::uint32_t psn) {
    const std::uint32_t b = layout_.block_of(psn);
    nodes_[r]->map.mark(b, layout_.subgroup_of(layout_.blocks()[b], psn), psn);
    consume(r);
  }
  /// Sends tail probes when all ranks wait: every sender repeats its last chunk. Returns false if
  /// every rank already has all these chunks.
  bool send_tail_probes() {
    bool news = false;
    for (std::uint32_t r = 0; r < size_; ++r) {
      const std::uint32_t sent = nodes_[r]->cursor;
      if (sent == layout_.blocks()[r].psns.first) continue;
      for (std::uint32_t to = 0; to < size_; ++to) {
        if (to == r || nodes_[to]->map.has(r, sent - 1)) continue;
        mark(to, sent - 1);
        news = true;
      }
    }
    return news;
  }
  /// Acts as a cutoff that fires too early: declares all missing chunks lost, even those that have
  /// not been sent.
  void declare_all(std::uint32_t r) {
    for (std::uint32_t b = 0; b < size_; ++b) {
      if (b != r) nodes_[r]->fetch.lost({b, layout_.blocks()[b].psns, false});
    }
    consume(r);
  }
  void declare(std::uint32_t r) {
    Node& node = *nodes_[r];
    for (const std::uint32_t psn : node.lost)
      node.fetch.lost({layout_.block_of(psn), {psn, psn + 1}});
    node.lost.clear();
    consume(r);
  }
  void consume(std::uint32_t r) {
    nodes_[r]->credits.consume(nodes_[r]->fetch, outbox_);
    pump_.collect(rank_of(r), outbox_);
  }
  void deliver(const MessagePump::Delivery& delivery) {
    CreditWindow& credits = nodes_[index(delivery.to)]->credits;
    if (delivery.message.kind == MessageKind::credit) {
      EXPECT_TRUE(credits.on_credit(delivery.from, delivery.message.argument, outbox_));
      pump_.collect(delivery.to, outbox_);
    } else {
      ASSERT_EQ(delivery.message.kind, MessageKind::grant);
      EXPECT_TRUE(credits.on_grant(delivery.from, delivery.message.argument));
    }
  }

  std::uint32_t size_;
  std::uint32_t loss_ppm_;
  std::uint32_t false_cutoff_ppm_ = 0;
  BlockLayout layout_;
  Sequencer sequencer_;
  MessagePump pump_;
  std::vector<std::unique_ptr<Node>> nodes_;
  Outbox outbox_;
  std::uint32_t longest_queue_ = 0;
};

TEST(CreditWindow, ReceiveQueues_neverExceedTheWindow_andAllChunksArrive) {
  for (std::uint32_t size = 2; size <= 17; ++size) {
    for (std::uint32_t chains = 1; chains <= size; ++chains) {
      for (const std::uint32_t loss_ppm : {0u, 100'000u}) {
        // In this window, each credit batch has at least one chunk per chain.
        const std::uint32_t window = kPulsesInFlight * chains + size;
        SCOPED_TRACE(testing::Message()
                     << size << " ranks, " << chains << " chains, loss " << loss_ppm);
        Stream stream(size, chains, 23, window, loss_ppm, size * 100 + chains);
        ASSERT_TRUE(stream.run()) << "no rank can continue: a credit is missing";
        ASSERT_LE(stream.longest_queue(), window);
      }
    }
  }
}

TEST(CreditWindow, ReportsAndGrants_areAsManyAsTheBatchesNeed) {
  std::uint64_t grants = 0;
  for (std::uint32_t size = 2; size <= 9; ++size) {
    for (std::uint32_t chains = 1; chains <= size; ++chains) {
      for (const std::uint32_t window : {16u, 24u, 100u}) {
        Stream stream(size, chains, 23, window, 0, size * 100 + chains);
        ASSERT_TRUE(stream.run());
        const CreditBatches batches(stream.layout(), chains, window, kPulsesInFlight);
        EXPECT_EQ(batches.messages(size), stream.credits() + stream.grants())
            << size << " ranks, " << chains << " chains, window " << window;
        grants += stream.grants();
      }
    }
  }
  EXPECT_GT(grants, 0u);
}

TEST(CreditBatches, LongestStream_hasAllItsBatches) {
  BlockLayout layout(1, 1, 1);
  ASSERT_TRUE(layout.add(rank_of(0), 0, BlockLayout::kMaxChunks));
  const auto of_window = [&](std::uint32_t chunks) {
    return CreditBatches(layout, 1, chunks, kPulsesInFlight);
  };
  EXPECT_EQ(of_window(kPulsesInFlight).count(0), BlockLayout::kMaxChunks);
  const CreditBatches batches = of_window(8 * kPulsesInFlight);
  EXPECT_EQ(batches.batch_chunks(), 8u);
  EXPECT_EQ(batches.count(0), 1u << 29);
  // The other rank reports each batch that permits a later one; the sender needs no grant.
  EXPECT_EQ(batches.messages(2), (1u << 29) - kPulsesInFlight);
}

TEST(CreditWindow, Window_isFilledButNotExceeded_inManyRandomOrdersOfSendsAndReceives) {
  std::map<std::uint32_t, std::uint32_t> longest_queues;  // by window
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    for (const std::uint32_t window : {16u, 24u, 40u}) {
      const auto chains = static_cast<std::uint32_t>(1 + seed % 4);
      Stream stream(5, chains, 31, window, seed % 2 == 0 ? 0 : 300'000, seed);
      ASSERT_TRUE(stream.needed());
      ASSERT_TRUE(stream.run()) << "seed " << seed << " window " << window;
      ASSERT_LE(stream.longest_queue(), window) << "seed " << seed;
      longest_queues[window] = std::max(longest_queues[window], stream.longest_queue());
      EXPECT_GT(stream.credits(), 0u);
    }
  }
  for (const auto& [window, longest] : longest_queues) EXPECT_EQ(longest, window);
}

TEST(CreditWindow, Window_isNotExceeded_whenCutoffsFireTooEarly) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Stream stream(5, static_cast<std::uint32_t>(1 + seed % 3), 31, 24, 200'000, seed);
    stream.false_cutoffs(30'000);
    ASSERT_TRUE(stream.run()) << "seed " << seed;
    ASSERT_LE(stream.longest_queue(), 24u) << "seed " << seed;
  }
}

TEST(CreditWindow, SmallWindows_areNeverExceeded) {
  for (const std::uint32_t chains : {1u, 3u, 5u}) {
    for (std::uint32_t window = chains; window < 6 * chains; ++window) {
      Stream stream(5, chains, 31, window, 0, window);
      ASSERT_TRUE(stream.run()) << chains << " chains, window " << window;
      ASSERT_LE(stream.longest_queue(), window) << chains << " chains";
    }
  }
}

TEST(CreditWindow, DataThatFitsIntoTheWindow_needsNoCredits) {
  Stream stream(6, 2, 10, 60, 0, 1);
  EXPECT_FALSE(stream.needed());
  EXPECT_TRUE(stream.run());
  EXPECT_EQ(stream.credits(), 0u);
}

TEST(CreditWindow, BroadcastRoot_getsACredit_onceEveryReceiverConsumedABatch) {
  BlockLayout layout(1, 1, 100);
  ASSERT_TRUE(layout.add(rank_of(1), 0, 100));
  std::vector<std::unique_ptr<ChunkMap>> maps;
  std::vector<std::unique_ptr<FetchRing>> fetches;
  std::vector<std::unique_ptr<CreditWindow>> credits;
  for (std::uint32_t r = 0; r < 3; ++r) {
    maps.push_back(std::make_unique<ChunkMap>(layout));
    fetches.push_back(
        std::make_unique<FetchRing>(rank_of(r), 3, kEpoch, *maps[r], FetchRing::Settings()));
    credits.push_back(std::make_unique<CreditWindow>(rank_of(r), 3, kEpoch, *maps[r], 1, 40, 4));
  }
  maps[1]->mark_run(0, {0, 100});
  Outbox outbox;
  credits[1]->consume(*fetches[1], outbox);
  EXPECT_TRUE(outbox.empty());
  EXPECT_EQ(credits[1]->batch_chunks(), 10u);
  EXPECT_EQ(credits[1]->limit(0), 40u);
  for (const std::uint32_t r : {0u, 2u}) {
    maps[r]->mark_run(0, {0, 10});
    credits[r]->consume(*fetches[r], outbox);
  }
  ASSERT_EQ(outbox.items().size(), 2u);
  EXPECT_EQ(credits[1]->limit(0), 40u);
  Outbox more;
  for (const std::uint32_t r : {0u, 2u}) {
    const Outbox::Item item = outbox.items()[r / 2];
    ASSERT_EQ(item.to, rank_of(1));
    EXPECT_EQ(credits[1]->limit(0), 40u);
    ASSERT_TRUE(credits[1]->on_credit(rank_of(r), item.message.argument, more));
  }
  EXPECT_EQ(credits[1]->limit(0), 50u);
}

TEST(CreditWindow, CreditReports_withAWrongRankOrChainOrBatch_areRefused) {
  const BlockLayout layout = gather(8, 100);
  const ChunkMap map(layout);
  CreditWindow credits(rank_of(0), 8, kEpoch, map, 1, 40, 4);
  Outbox outbox;
  EXPECT_FALSE(credits.on_credit(rank_of(1), std::uint64_t{1} << 32, outbox))
      << "the chain does not exist";
  EXPECT_FALSE(credits.on_credit(rank_of(1), 80, outbox)) << "the credit batch does not exist";
  EXPECT_FALSE(credits.on_credit(rank_of(1), 79, outbox))
      << "the last credit batches are not reported, because no rank waits for them";
  EXPECT_FALSE(credits.on_credit(rank_of(3), 0, outbox)) << "rank 3 is a child of rank 2";
  EXPECT_FALSE(credits.on_credit(rank_of(0), 0, outbox)) << "rank 0 is not a child of itself";
  EXPECT_FALSE(credits.on_grant(rank_of(0), std::uint64_t{7} << 32));
  EXPECT_FALSE(credits.on_grant(rank_of(0), 80));
  EXPECT_TRUE(outbox.empty());
  EXPECT_EQ(credits.limit(0), 40u);
}

TEST(CreditWindow, GrantFromARankThatIsNotTheGrantor_isRefused) {
  const BlockLayout layout = gather(8, 100);
  const ChunkMap map(layout);
  CreditWindow credits(rank_of(1), 8, kEpoch, map, 1, 40, 4);
  // Batch 9 may be sent once every rank has consumed credit batch 5. The sender of batch 9, rank 0,
  // is therefore the grantor: only its grant for batch 5 is accepted.
  EXPECT_FALSE(credits.on_grant(rank_of(3), 5));
  EXPECT_EQ(credits.limit(0), 40u);
  EXPECT_TRUE(credits.on_grant(rank_of(0), 5));
  EXPECT_EQ(credits.limit(0), 100u);
  EXPECT_FALSE(credits.on_grant(rank_of(7), 79)) << "no sender waits for this credit";
}

}  // namespace
}  // namespace tutti::protocol
