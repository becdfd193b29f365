#include "protocol/handshake.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "message_pump.hpp"

namespace tutti::protocol {
namespace {

TEST(Handshake, HandshakeOfASingleRank_needsNoMessage) {
  Handshake one(rank_of(0), 1, 3);
  Outbox outbox;
  EXPECT_FALSE(one.done());
  one.finish(outbox);
  EXPECT_TRUE(one.done());
  EXPECT_TRUE(outbox.empty());
}

TEST(Handshake, LeftNeighbour_isNotifiedOnce_andTheRightOneIsAwaited) {
  Handshake one(rank_of(2), 5, 3);
  Outbox outbox;
  one.finish(outbox);
  one.finish(outbox);
  ASSERT_EQ(outbox.items().size(), 1u);
  EXPECT_EQ(outbox.items()[0].to, rank_of(1));
  EXPECT_EQ(outbox.items()[0].message.kind, MessageKind::final);
  EXPECT_EQ(outbox.items()[0].message.epoch, 3u);
  EXPECT_FALSE(one.done());
  EXPECT_FALSE(one.on_final(rank_of(1)));
  EXPECT_FALSE(one.on_final(rank_of(4)));
  EXPECT_FALSE(one.heard());
  EXPECT_TRUE(one.on_final(rank_of(3)));
  EXPECT_TRUE(one.done());
}

TEST(Handshake, RankIsNotDoneWhileItsRightNeighbourMayRead) {
  for (std::uint32_t size = 2; size <= 17; ++size) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      MessagePump pump(seed);
      Outbox outbox;
      std::vector<Handshake> ranks;
      std::vector<std::uint32_t> unfinished;
      for (std::uint32_t r = 0; r < size; ++r) {
        ranks.emplace_back(rank_of(r), size, 1);
        unfinished.push_back(r);
      }
      while (!unfinished.empty() || !pump.empty()) {
        if (!unfinished.empty() && (pump.empty() || pump.random().chance_ppm(300'000))) {
          const std::size_t at = pump.random().below(unfinished.size());
          ranks[unfinished[at]].finish(outbox);
          pump.collect(rank_of(unfinished[at]), outbox);
          unfinished.erase(unfinished.begin() + static_cast<std::ptrdiff_t>(at));
        } else if (const auto delivery = pump.next()) {
          ASSERT_TRUE(ranks[index(delivery->to)].on_final(delivery->from));
        }
        for (std::uint32_t r = 0; r < size; ++r) {
          if (ranks[r].done()) {
            ASSERT_TRUE(ranks[(r + 1) % size].told());
          }
        }
      }
      for (const Handshake& one : ranks) ASSERT_TRUE(one.done());
      ASSERT_EQ(pump.sent(MessageKind::final), size);
    }
  }
}

}  // namespace
}  // namespace tutti::protocol
