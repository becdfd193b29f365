// Tests ranks that may hold fewer connections than they have peers, in virtual time over a network
// that loses and delays frames. All data must arrive once, no rank may exceed its limit of
// connections, and dead peers must be reported.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/random.hpp"
#include "device/host/host_device.hpp"
#include "device/rc/channel_set.hpp"

namespace tutti::device::rc {
namespace {

using Bytes = std::vector<std::byte>;

constexpr Nanoseconds kPeerTimeout{1'000'000'000};
constexpr Nanoseconds kStep{200'000};

class Network;

/// A rank with its connections, its completed operations and its arrived messages.
struct Side final : FrameSocket, CompletionSink {
  Side(Network& all, Rank rank, std::uint32_t ranks, ConnectionLimits limits)
      : network(all), me(rank), channels(rank, ranks) {
    RcConfig config;
    config.peer_timeout = kPeerTimeout;
    EXPECT_TRUE(channels.configure(config).ok());
    channels.limit_connections(limits);
  }
  bool receive(Instant now) override;
  bool send(Instant now, Rank peer, RcChannel& channel) override;
  void send_sign_of_life() override;
  void probe_path(Rank peer, std::uint32_t bytes) override;
  void push(const Completion& completion) override {
    if (completion.opcode == Opcode::failure) {
      failures.push_back(completion);
    } else if (completion.opcode == Opcode::probe) {
      ++probes;
    } else if (completion.opcode == Opcode::receive) {
      arrived[completion.peer].emplace_back(completion.payload.begin(), completion.payload.end());
    } else if (completion.code == Code::ok) {
      ++completed;
    } else if (completion.code == Code::aborted) {
      ++aborted;
    } else {
      EXPECT_EQ(completion.code, Code::peer_failed);
    }
  }
  EndpointCounters counters() const {
    EndpointCounters sum;
    channels.add_to(sum);
    return sum;
  }

  Network& network;
  Rank me;
  ChannelSet channels;
  std::multimap<Instant, std::pair<Rank, Bytes>> incoming;
  std::map<Rank, std::vector<Bytes>> arrived;
  std::vector<Completion> failures;
  int probes = 0;
  std::map<Rank, int> dropped_answered;  ///< by peer: answers to its dropped frames
  int signs_multicast = 0;
  int posted = 0;  ///< READs that RankWhoseConnectionsAreAllBusy has posted
  int completed = 0;
  int aborted = 0;
};

class Network {
 public:
  Network(std::uint32_t ranks, ConnectionLimits limits, std::uint64_t loss_ppm = 0)
      : random_(ranks), loss_ppm_(loss_ppm) {
    for (std::uint32_t r = 0; r < ranks; ++r)
      sides_.push_back(std::make_unique<Side>(*this, rank_of(r), ranks, limits));
  }

  bool passes_multicast = true;

  Side& operator[](std::uint32_t rank) { return *sides_[rank]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(sides_.size()); }
  Instant now() const { return now_; }
  void kill(std::uint32_t rank) { dead_.insert(rank); }
  Status post(std::uint32_t from, std::uint32_t to, Bytes& local, Opcode opcode = Opcode::send) {
    return sides_[from]->channels.post(now_,
                                       {.opcode = opcode, .peer = rank_of(to), .local = local});
  }
  void carry(Rank from, Rank to, Bytes frame) {
    if (random_.chance_ppm(loss_ppm_)) return;
    const Nanoseconds delay(static_cast<std::int64_t>(20'000 + random_.below(300'000)));
    sides_[index(to)]->incoming.emplace(now_ + delay, std::pair(from, std::move(frame)));
  }
  void step() {
    now_ = now_ + kStep;
    for (std::uint32_t r = 0; r < size(); ++r) {
      if (!dead_.contains(r)) sides_[r]->channels.poll(now_, *sides_[r], *sides_[r]);
    }
  }
  void run_for(Nanoseconds time) {
    for (const Instant end = now_ + time; now_ < end;) step();
  }

 private:
  Random random_;
  std::uint64_t loss_ppm_;
  std::vector<std::unique_ptr<Side>> sides_;
  std::set<std::uint32_t> dead_;
  Instant now_{1'000'000'000};
};

bool Side::receive(Instant now) {
  if (incoming.empty() || incoming.begin()->first > now) return false;
  const auto [from, bytes] = std::move(incoming.begin()->second);
  incoming.erase(incoming.begin());
  channels.on_frame(now, from, bytes, *this);
  return true;
}

bool Side::send(Instant now, Rank peer, RcChannel& channel) {
  OutgoingFrame frame;
  while (channel.next_frame(now, frame)) network.carry(me, peer, frame.bytes());
  return true;
}

void Side::probe_path(Rank peer, std::uint32_t) {
  ++dropped_answered[peer];
  Side& to = network[index(peer)];
  to.channels.on_probe(network.now(), {.opcode = Opcode::probe, .peer = me}, to);
}

void Side::send_sign_of_life() {
  ++signs_multicast;
  for (std::uint32_t r = 0; r < network.size() && network.passes_multicast; ++r) {
    if (rank_of(r) == me) continue;
    network[r].channels.on_probe(network.now(), {.opcode = Opcode::probe, .peer = me}, network[r]);
  }
}

Bytes message_of(std::uint32_t from, std::uint32_t to, std::uint32_t round) {
  const std::uint64_t seed = (std::uint64_t{round} << 40) | (std::uint64_t{from} << 20) | to;
  Bytes bytes(1 + draw(1, seed) % (draw(2, seed) % 4 == 0 ? 9'000 : 100));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(draw(seed, i / 8) >> (i % 8 * 8));
  return bytes;
}

/// In each round, each rank sends one message to every other rank, beginning with the next rank.
class Alltoall {
 public:
  Alltoall(Network& network, std::uint32_t rounds) : network_(network), rounds_(rounds) {
    next_.resize(network.size(), 0);
    for (std::uint32_t r = 0; r < network.size(); ++r) {
      for (std::uint32_t k = 0; k < total(); ++k) messages_.push_back(message_of(r, to(r, k), k));
    }
  }

  bool run(int most_steps) {
    for (int i = 0; i < most_steps; ++i) {
      bool done = true;
      for (std::uint32_t r = 0; r < network_.size(); ++r) {
        post(r);
        done = done && network_[r].completed == static_cast<int>(total());
      }
      network_.step();
      if (done) return true;
    }
    return false;
  }
  void verify() {
    for (std::uint32_t r = 0; r < network_.size(); ++r) {
      for (std::uint32_t k = 0; k < total(); ++k) {
        const std::uint32_t peer = to(r, k);
        const std::vector<Bytes>& got = network_[peer].arrived[rank_of(r)];
        ASSERT_EQ(got.size(), rounds_) << "rank " << r << " to rank " << peer;
        EXPECT_TRUE(got[k / (network_.size() - 1)] == messages_[r * total() + k]);
      }
    }
  }

 private:
  std::uint32_t total() const { return rounds_ * (network_.size() - 1); }
  std::uint32_t to(std::uint32_t from, std::uint32_t k) const {
    return (from + 1 + k % (network_.size() - 1)) % network_.size();
  }
  void post(std::uint32_t rank) {
    for (; next_[rank] < total(); ++next_[rank]) {
      const Status status = network_[rank].channels.post(
          network_.now(), {.opcode = Opcode::send,
                           .peer = rank_of(to(rank, next_[rank])),
                           .local = messages_[rank * total() + next_[rank]]});
      if (status.ok()) continue;
      ASSERT_EQ(status.code(), Code::resource_exhausted) << status.to_string();
      return;
    }
  }

  Network& network_;
  std::uint32_t rounds_;
  std::vector<std::uint32_t> next_;
  std::vector<Bytes> messages_;
};

TEST(DynamicConnections, AlltoallOfManyRanks_overALossyNetwork_needsFewConnections) {
  constexpr std::uint32_t kMost = 8;
  for (const std::uint64_t loss_ppm : {0, 50'000}) {
    Network network(64, {.most = kMost}, loss_ppm);
    Alltoall all(network, 2);
    ASSERT_TRUE(all.run(100'000)) << "loss of " << loss_ppm << " ppm";
    all.verify();
    for (std::uint32_t r = 0; r < network.size(); ++r) {
      const EndpointCounters counters = network[r].counters();
      EXPECT_LE(counters.connections_high_water, kMost);
      EXPECT_LE(counters.connections_open, kMost);
      EXPECT_GE(counters.connections_made, 63u);
      EXPECT_EQ(counters.connections_made - counters.connections_closed, counters.connections_open);
      EXPECT_TRUE(network[r].failures.empty());
    }
  }
}

TEST(DynamicConnections, Connections_withoutALimit_areMadeToEachPeer_andNeverClosed) {
  Network network(16, {});
  Alltoall all(network, 3);
  ASSERT_TRUE(all.run(10'000));
  all.verify();
  network.run_for(std::chrono::seconds(3));
  for (std::uint32_t r = 0; r < network.size(); ++r) {
    EXPECT_EQ(network[r].counters().connections_made, 15u);
    EXPECT_EQ(network[r].counters().connections_closed, 0u);
  }
}

TEST(DynamicConnections, IdleConnections_areClosed_andReopenedWhenTheyAreUsedAgain) {
  Network network(4, {.most = 8, .idle = std::chrono::milliseconds(100)});
  Alltoall first(network, 1);
  ASSERT_TRUE(first.run(1'000));
  EXPECT_EQ(network[0].counters().connections_open, 3u);
  network.run_for(std::chrono::milliseconds(300));
  EXPECT_EQ(network[0].counters().connections_open, 0u);
  EXPECT_EQ(network[0].channels.next_deadline(), kNever);
  for (std::uint32_t r = 0; r < 4; ++r) network[r].completed = 0;
  Alltoall second(network, 1);
  ASSERT_TRUE(second.run(1'000));
  EXPECT_EQ(network[0].arrived[rank_of(1)].size(), 2u);
  EXPECT_EQ(network[0].counters().connections_made, 6u);
  EXPECT_EQ(network[0].counters().rejected_foreign, 0u);
}

TEST(DynamicConnections, WorkForOneMorePeer_atTheConnectionLimit_isRefusedUntilWorkCompletes) {
  Network network(6, {.most = 4});
  Bytes message(10'000, std::byte{1});
  const auto post = [&](std::uint32_t to) { return network.post(0, to, message); };
  ASSERT_TRUE(post(1).ok());
  ASSERT_TRUE(post(2).ok());
  const Status refused = post(3);
  EXPECT_EQ(refused.code(), Code::resource_exhausted);
  EXPECT_NE(refused.message().find("at most 2 may carry work at a time"), std::string::npos)
      << refused.message();
  EXPECT_TRUE(post(1).ok()) << "a connection with pending work must accept more";
  network.run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(network[0].completed, 3);
  EXPECT_TRUE(post(3).ok());
}

TEST(DynamicConnections, AckOfAMessage_underAConnectionLimit_isNotDelayed) {
  constexpr std::uint32_t kMessages = 10;
  for (const std::uint32_t most : {0u, 2u}) {
    Network network(3, {.most = most});
    Bytes message(100);
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(network.post(0, 1, message).ok());
      while (network[1].arrived[Rank{0}].size() <= i) network.step();
      ASSERT_TRUE(network.post(1, 0, message).ok());
      network[1].channels.poll_posted(network.now(), network[1], network[1]);
      network.run_for(std::chrono::milliseconds(1));
    }
    const std::uint32_t acks = most > 0 ? kMessages : DelayedAck::kPromptReplies;
    EXPECT_EQ(network[1].counters().reliable_frames_sent, kMessages + acks) << "limit " << most;
  }
}

TEST(DynamicConnections, HalfReceivedWrite_keepsItsConnection) {
  // The last frames of a WRITE with immediate are withheld while other peers need connections.
  Network network(8, {.most = 2});
  Bytes region(8'000), data(8'000, std::byte{5});
  const MemoryKey key = *network[0].channels.memory().add(region);
  ASSERT_TRUE(network[1]
                  .channels
                  .post(network.now(), {.opcode = Opcode::write_immediate,
                                        .peer = Rank{0},
                                        .local = data,
                                        .remote_key = key,
                                        .immediate = 3})
                  .ok());
  OutgoingFrame frame;
  std::vector<Bytes> frames;
  while (network[1].channels[Rank{0}].next_frame(network.now(), frame))
    frames.push_back(frame.bytes());
  ASSERT_GT(frames.size(), 3u);
  network[0].channels.on_frame(network.now(), Rank{1}, frames[0], network[0]);
  Bytes note(8, std::byte{2});
  for (std::uint32_t r = 2; r < 8; ++r) {
    ASSERT_TRUE(network.post(r, 0, note).ok());
  }
  network.run_for(std::chrono::milliseconds(400));
  EXPECT_TRUE(region == data);
  EXPECT_EQ(network[0].arrived[rank_of(1)].size(), 1u) << "the immediate must arrive once";
  for (std::uint32_t r = 2; r < 8; ++r)
    EXPECT_EQ(network[0].arrived[rank_of(r)].size(), 1u) << "messages of rank " << r;
  EXPECT_LE(network[0].counters().connections_high_water, 2u);
}

TEST(DynamicConnections, DeathOfAWatchedPeer_beyondTheConnectionLimit_isReportedAtEveryRank) {
  Network network(20, {.most = 4});
  for (std::uint32_t r = 0; r < 20; ++r) {
    for (std::uint32_t peer = 0; peer < 20; ++peer) {
      if (peer != r) network[r].channels.watch(network.now(), rank_of(peer), true);
    }
  }
  network.run_for(5 * kPeerTimeout);
  for (std::uint32_t r = 0; r < 20; ++r) {
    EXPECT_TRUE(network[r].failures.empty()) << "rank " << r;
    EXPECT_LE(network[r].counters().connections_high_water, 4u);
  }
  network.kill(7);
  network.run_for(2 * kPeerTimeout);
  for (std::uint32_t r = 0; r < 20; ++r) {
    if (r == 7) continue;
    ASSERT_EQ(network[r].failures.size(), 1u) << "rank " << r;
    EXPECT_EQ(network[r].failures[0].peer, rank_of(7));
    EXPECT_EQ(network[r].failures[0].blame, Blame::peer);
  }
}

TEST(DynamicConnections, RankWhoseConnectionsAreAllBusy_answersByUnicast_andIsNotDeclaredDead) {
  Network network(4, {.most = 2});
  network.passes_multicast = false;
  Bytes source(8'000, std::byte{3});
  const auto key = network[0].channels.memory().add(source);
  ASSERT_TRUE(key.ok());
  Bytes message(4, std::byte{4});
  std::vector<Bytes> read(3, Bytes(source.size()));
  const auto keep_busy = [&](std::uint32_t reader) {
    // With two READs under way at all times, the connection of rank 0 is never quiet.
    while (network[reader].posted - network[reader].completed < 2) {
      ++network[reader].posted;
      ASSERT_TRUE(network[reader]
                      .channels
                      .post(network.now(), {.opcode = Opcode::read,
                                            .peer = Rank{0},
                                            .local = read[reader],
                                            .remote_key = *key})
                      .ok());
    }
  };
  const auto keep_both_busy_for = [&](Nanoseconds time) {
    for (const Instant end = network.now() + time; network.now() < end; network.step()) {
      keep_busy(1);
      keep_busy(2);
    }
  };
  keep_both_busy_for(kPeerTimeout / 10);
  ASSERT_TRUE(network.post(3, 0, message).ok());
  keep_both_busy_for(3 * kPeerTimeout);
  EXPECT_GT(network[0].counters().frames_without_connection, 0u);
  EXPECT_EQ(network[0].signs_multicast, 0) << "multicast signs would load all ranks";
  const auto& answered = network[0].dropped_answered;
  ASSERT_EQ(answered.size(), 1u);
  EXPECT_EQ(answered.begin()->first, Rank{3});
  EXPECT_EQ(network[3].probes, answered.begin()->second);
  EXPECT_GT(network[3].probes, 10);
  EXPECT_LE(network[3].probes, 31) << "at most ten answers a second";
  EXPECT_TRUE(network[3].failures.empty());
  network.run_for(kPeerTimeout);
  EXPECT_EQ(network[0].arrived[Rank{3}].size(), 1u);
}

TEST(DynamicConnections, NoticesAfterAFailure_reachLivingPeers_beyondTheConnectionLimit) {
  Network network(8, {.most = 2});
  Bytes message(100, std::byte{1});
  const auto post = [&](std::uint32_t to) { return network.post(0, to, message); };
  for (std::uint32_t r = 1; r <= 4; ++r) network.kill(r);
  ASSERT_TRUE(post(1).ok());
  network.run_for(2 * kPeerTimeout);
  ASSERT_EQ(network[0].failures.size(), 1u);
  network[0].channels.abandon();
  for (std::uint32_t r = 2; r < 8; ++r) EXPECT_TRUE(post(r).ok()) << "rank " << r;
  network.run_for(std::chrono::milliseconds(20));
  for (std::uint32_t r = 5; r < 8; ++r)
    EXPECT_EQ(network[r].arrived[Rank{0}].size(), 1u) << "rank " << r;
}

TEST(DynamicConnections, ConnectionsToPeersThatLeft_areFreedForOtherPeers) {
  Network network(8, {.most = 2});
  Bytes message(100, std::byte{1});
  const auto post = [&](std::uint32_t to) { return network.post(0, to, message); };
  for (std::uint32_t r = 1; r <= 4; ++r) network.kill(r);
  for (std::uint32_t r = 1; r <= 4; ++r) {
    ASSERT_TRUE(post(r).ok()) << "rank " << r;
    network.step();
    EXPECT_FALSE(network[0].channels.quiet());
    network[0].channels.release_peer(rank_of(r));
    EXPECT_TRUE(network[0].channels.quiet());
  }
  for (std::uint32_t r = 5; r < 8; ++r) {
    ASSERT_TRUE(post(r).ok()) << "rank " << r;
    network.run_for(std::chrono::milliseconds(20));
    EXPECT_EQ(network[r].arrived[Rank{0}].size(), 1u) << "rank " << r;
  }
  network.run_for(2 * kPeerTimeout);
  EXPECT_TRUE(network[0].failures.empty()) << "a released peer must not be declared lost";
  EXPECT_LE(network[0].counters().connections_high_water, 2u);
}

TEST(DynamicConnections, LeavingPeer_whoseConnectionWasClosed_stillGetsAnAck) {
  Network network(4, {.most = 2});
  Bytes message(100, std::byte{1});
  ASSERT_TRUE(network.post(0, 1, message).ok());
  network.step();
  network[0].channels.release_peer(Rank{1});
  ASSERT_EQ(network[1].incoming.size(), 1u);
  network[1].incoming.clear();  // the message is lost
  for (const std::uint32_t other : {2u, 3u}) {
    ASSERT_TRUE(network.post(0, other, message).ok());
    network.run_for(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(network[0].counters().connections_closed, 1u);
  EXPECT_EQ(network.post(0, 1, message).code(), Code::aborted)
      << "the lost message leaves a gap for ever";
  ASSERT_TRUE(network.post(1, 0, message).ok());
  network.run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(network[0].arrived[Rank{1}].size(), 1u);
  EXPECT_TRUE(network[1].channels.quiet());
}

TEST(DynamicConnections, ReadFromAPeerThatLeft_isAborted_andFreesAConnection) {
  Network network(5, {.most = 2});
  Bytes memory(100);
  for (std::uint32_t r = 1; r <= 2; ++r) {
    network.kill(r);
    ASSERT_TRUE(network.post(0, r, memory, Opcode::read).ok());
    network[0].channels.release_peer(rank_of(r));
    EXPECT_FALSE(network[0].channels.quiet());
    network.run_for(kPeerTimeout / 4);
    EXPECT_EQ(network[0].aborted, static_cast<int>(r));
    EXPECT_TRUE(network[0].channels.quiet());
  }
  for (std::uint32_t r = 3; r <= 4; ++r) {
    EXPECT_TRUE(network.post(0, r, memory).ok());
    network.run_for(std::chrono::milliseconds(20));
    EXPECT_EQ(network[r].arrived[Rank{0}].size(), 1u) << "rank " << r;
  }
  EXPECT_TRUE(network[0].failures.empty());
}

TEST(DynamicConnections, MessageToAPeerThatHasLeft_isNotRetransmittedForEver) {
  Network network(3, {});
  Bytes message(100, std::byte{1});
  network.kill(1);
  ASSERT_TRUE(network.post(0, 1, message).ok());
  network.step();
  network[0].channels.release_peer(Rank{1});
  network.run_for(kPeerTimeout / 4);
  const std::uint64_t sent = network[0].counters().reliable_frames_sent;
  EXPECT_GE(sent, 3u);
  EXPECT_EQ(network[0].aborted, 1);
  network.run_for(2 * kPeerTimeout);
  EXPECT_EQ(network[0].counters().reliable_frames_sent, sent);
  EXPECT_EQ(network[0].channels.next_deadline(), kNever);
  EXPECT_TRUE(network[0].failures.empty());
}

// There is no third rank that could tell whether rank 0 or rank 1 is cut off.
TEST(DynamicConnections, SilentPeer_onceAllOthersHaveClosed_isBlamedTogetherWithThisRank) {
  Network network(4, {});
  for (std::uint32_t r = 1; r < 4; ++r) network.kill(r);
  network[0].channels.release_peer(Rank{2});
  network[0].channels.release_peer(Rank{3});
  network[0].channels.watch(network.now(), Rank{1}, true);
  network.run_for(2 * kPeerTimeout);
  ASSERT_EQ(network[0].failures.size(), 1u);
  EXPECT_EQ(network[0].failures[0].peer, Rank{1});
  EXPECT_EQ(network[0].failures[0].blame, Blame::either);
  EXPECT_EQ(network[0].counters().connections_made, 1u) << "closed ranks must not be questioned";
}

TEST(DynamicConnections, SharedMemoryDevice_refusesALimitOfConnections) {
  EndpointOptions options;
  options.rank = Rank{0};
  options.size = 1;
  options.local_ranks = {Rank{0}};
  options.max_connections = 4;
  const auto refused = host::HostDevice().open(options);
  EXPECT_EQ(refused.status().code(), Code::unsupported);
}

}  // namespace
}  // namespace tutti::device::rc
