// Tests which rank is blamed when a peer is silent. A rank blames its silent peer. If the rank has
// several peers and none of them answers, the rank reports that the fault may lie with itself or
// with the peer. A rank blames itself if a peer has declared it lost. If that peer heard no rank at
// all, the fault may again lie with either rank.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "device/rc/channel_set.hpp"

namespace tutti::device::rc {
namespace {

using Bytes = std::vector<std::byte>;

constexpr Nanoseconds kPeerTimeout{1'000'000'000};
constexpr Nanoseconds kStep{1'000'000};

/// Several ranks in virtual time. A killed rank never polls; a cut direction loses all frames.
class Ranks {
 public:
  explicit Ranks(std::uint32_t count) {
    for (std::uint32_t r = 0; r < count; ++r) {
      sides_.push_back(std::make_unique<Side>(*this, rank_of(r), count));
    }
  }

  void kill(Rank rank) { dead_.insert(rank); }
  void cut(Rank from, Rank to) { cut_.insert({from, to}); }
  void heal() { cut_.clear(); }
  /// From now on `rank` waits for `peer`.
  void watch(Rank rank, Rank peer) { side(rank).channels.watch(now_, peer, true); }
  void run_for(Nanoseconds time) {
    for (const Instant end = now_ + time; now_ < end; now_ = now_ + kStep) {
      for (auto& one : sides_) {
        if (!dead_.contains(one->me)) one->channels.poll(now_, *one, one->failures);
      }
    }
  }
  /// The failures that a rank has reported.
  const std::vector<Completion>& failures(Rank rank) { return side(rank).failures.seen; }

 private:
  struct Failures : CompletionSink {
    void push(const Completion& completion) override {
      if (completion.opcode == Opcode::failure) seen.push_back(completion);
    }
    std::vector<Completion> seen;
  };
  struct Side final : FrameSocket {
    Side(Ranks& all, Rank rank, std::uint32_t count)
        : network(all), me(rank), channels(rank, count) {
      RcConfig config;
      config.peer_timeout = kPeerTimeout;
      EXPECT_TRUE(channels.configure(config).ok());
    }
    bool receive(Instant now) override {
      if (arrived.empty()) return false;
      const auto [from, bytes] = std::move(arrived.front());
      arrived.pop_front();
      channels[from].on_frame(now, bytes, failures);
      return !arrived.empty();
    }
    bool send(Instant now, Rank peer, RcChannel& channel) override {
      OutgoingFrame frame;
      while (channel.next_frame(now, frame)) {
        if (!network.cut_.contains({me, peer}))
          network.side(peer).arrived.emplace_back(me, frame.bytes());
      }
      return true;
    }

    Ranks& network;
    Rank me;
    ChannelSet channels;
    Failures failures;
    std::deque<std::pair<Rank, Bytes>> arrived;
  };

  Side& side(Rank rank) { return *sides_[index(rank)]; }

  std::vector<std::unique_ptr<Side>> sides_;
  std::set<Rank> dead_;
  std::set<std::pair<Rank, Rank>> cut_;
  Instant now_{1'000};
};

constexpr Nanoseconds kLong = kPeerTimeout * 3;

void expect_blame(Ranks& ranks, Rank at, Rank peer, Blame blame) {
  ASSERT_EQ(ranks.failures(at).size(), 1u);
  EXPECT_EQ(ranks.failures(at)[0].peer, peer);
  EXPECT_EQ(ranks.failures(at)[0].blame, blame);
}

TEST(SilentPeer, DeadPeer_isBlamed_ifAnotherRankAnswers) {
  Ranks ranks(3);
  ranks.kill(Rank{1});
  ranks.watch(Rank{0}, Rank{1});
  ranks.run_for(kPeerTimeout * 6 / 5 + kStep * 2);
  expect_blame(ranks, Rank{0}, Rank{1}, Blame::peer);
}

TEST(SilentPeer, DeadPeer_isBlamed_ifThereAreTwoRanks) {
  Ranks ranks(2);
  ranks.kill(Rank{1});
  ranks.watch(Rank{0}, Rank{1});
  ranks.run_for(kLong);
  expect_blame(ranks, Rank{0}, Rank{1}, Blame::peer);
}

TEST(SilentPeer, RankThatHearsNoPeer_mayBeAtFaultItself) {
  Ranks ranks(4);
  for (const Rank other : {Rank{1}, Rank{2}, Rank{3}}) ranks.cut(other, Rank{0});
  ranks.watch(Rank{0}, Rank{1});
  ranks.run_for(kLong);
  expect_blame(ranks, Rank{0}, Rank{1}, Blame::either);
}

TEST(SilentPeer, RankThatNoPeerHears_mayBeAtFaultItself) {
  Ranks ranks(4);
  for (const Rank other : {Rank{1}, Rank{2}, Rank{3}}) ranks.cut(Rank{0}, other);
  ranks.watch(Rank{0}, Rank{1});
  ranks.watch(Rank{2}, Rank{3});
  ranks.run_for(kLong);
  expect_blame(ranks, Rank{0}, Rank{1}, Blame::either);
  EXPECT_TRUE(ranks.failures(Rank{2}).empty());
}

TEST(SilentPeer, OneCutPath_isBlamedOnThePeer) {
  Ranks ranks(4);
  ranks.cut(Rank{1}, Rank{0});
  ranks.watch(Rank{0}, Rank{1});
  ranks.run_for(kLong);
  expect_blame(ranks, Rank{0}, Rank{1}, Blame::peer);
}

// Rank 0 hears no peer, except for a moment in which its link returns.
TEST(SilentPeer, BriefReturnOfTheLink_restartsThePeerTimeoutOfEveryPeer) {
  Ranks ranks(4);
  const auto cut_off = [&] {
    for (const Rank other : {Rank{1}, Rank{2}, Rank{3}}) ranks.cut(other, Rank{0});
  };
  cut_off();
  ranks.watch(Rank{0}, Rank{1});
  ranks.run_for(kPeerTimeout * 11 / 10);
  ranks.heal();
  ranks.run_for(kPeerTimeout / 20);
  cut_off();
  ranks.run_for(kPeerTimeout / 2);
  EXPECT_TRUE(ranks.failures(Rank{0}).empty());
  ranks.run_for(kLong);
  expect_blame(ranks, Rank{0}, Rank{1}, Blame::either);
}

TEST(SilentPeer, RankThatAPeerHasDeclaredLost_blamesItself) {
  for (const std::uint32_t count : {2u, 3u}) {
    Ranks ranks(count);
    ranks.cut(Rank{1}, Rank{0});
    ranks.watch(Rank{0}, Rank{1});
    ranks.run_for(kLong);
    expect_blame(ranks, Rank{0}, Rank{1}, Blame::peer);
    ranks.heal();
    ranks.watch(Rank{1}, Rank{0});
    ranks.run_for(kPeerTimeout / 2);
    expect_blame(ranks, Rank{1}, Rank{0}, Blame::self);
  }
}

TEST(SilentPeer, RankDeclaredLostByACutOffPeer_blamesItselfOrThatPeer) {
  Ranks ranks(3);
  for (const Rank other : {Rank{1}, Rank{2}}) ranks.cut(other, Rank{0});
  ranks.watch(Rank{0}, Rank{1});
  ranks.run_for(kLong);
  ranks.heal();
  ranks.watch(Rank{1}, Rank{0});
  ranks.run_for(kPeerTimeout / 2);
  expect_blame(ranks, Rank{1}, Rank{0}, Blame::either);
}

}  // namespace
}  // namespace tutti::device::rc
