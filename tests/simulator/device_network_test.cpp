// Tests the `sim` device on a simulated fabric: its endpoints keep the contract of
// device::Endpoint.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "sim/device/sim_device.hpp"
#include "sim/fault/fault_device.hpp"

namespace tutti::device::sim {
namespace {

using tutti::sim::HostId;
using Bytes = std::vector<std::byte>;

Bytes counted_bytes(std::size_t size, unsigned from) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(from + i * 7);
  return bytes;
}

/// Hosts on one switch, with one endpoint each.
class Hosts : public HostWaker {
 public:
  explicit Hosts(std::uint32_t count, NicSettings nic = {}, EndpointOptions options = {},
                 std::shared_ptr<FrameTap> tap = nullptr)
      : topology_(tutti::sim::Topology::single_switch(count)),
        network_(queue_, topology_, {}, *this),
        woken_(count) {
    std::vector<HostId> hosts;
    for (std::uint32_t h = 0; h < count; ++h) hosts.push_back(HostId{h});
    auto number = network_.add_communicator(hosts, options.subgroups);
    EXPECT_TRUE(number.ok());
    options.size = count;
    if (options.peer_timeout.count() == 0) options.peer_timeout = Nanoseconds(5'000'000);
    SimDevice device(network_, *number, nic, std::move(tap));
    for (std::uint32_t r = 0; r < count; ++r) {
      options.rank = rank_of(r);
      auto endpoint = device.open(options);
      EXPECT_TRUE(endpoint.ok()) << endpoint.status().to_string();
      endpoints_.push_back(std::move(*endpoint));
    }
  }

  Endpoint& operator[](std::size_t rank) { return *endpoints_[rank]; }
  SimNetwork& network() { return network_; }
  Instant now() const { return tutti::sim::to_instant(queue_.now()); }
  std::uint32_t woken(std::size_t host) const { return woken_[host]; }
  void wake(HostId host, Instant, bool) override { ++woken_[index(host)]; }

  /// Runs the pending events up to an instant, which then is the current time.
  void run_to(Instant until) {
    queue_.push({.time = tutti::sim::from_instant(until), .key = ~std::uint64_t{0}, .argument = 0});
    tutti::sim::Event event;
    while (queue_.pop(event) && event.key != ~std::uint64_t{0}) network_.handle(event);
  }
  void run_for(std::int64_t nanoseconds) { run_to(now() + Nanoseconds(nanoseconds)); }

  std::vector<Completion> poll(std::size_t rank) {
    std::array<Completion, 32> batch;
    const std::size_t count = endpoints_[rank]->poll(now(), batch);
    return {batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  /// Takes the chunks that wait in the staging of subgroup `s` at a rank. Returns each payload with
  /// its PSN.
  std::vector<std::pair<std::uint32_t, Bytes>> take_chunks(std::size_t rank, std::uint32_t s = 0) {
    std::vector<std::pair<std::uint32_t, Bytes>> taken;
    std::array<ReceivedChunk, 7> batch;
    MulticastQueuePair& pair = endpoints_[rank]->multicast(s);
    for (std::size_t count = pair.poll(batch); count > 0; count = pair.poll(batch)) {
      for (std::size_t i = 0; i < count; ++i) {
        Bytes bytes(batch[i].payload.size());
        EXPECT_TRUE(pair.copy_and_verify(batch[i], bytes.data()));
        taken.emplace_back(batch[i].psn, std::move(bytes));
      }
      pair.release();
    }
    return taken;
  }

 private:
  tutti::sim::EventQueue queue_;
  tutti::sim::Topology topology_;
  SimNetwork network_;
  std::vector<std::uint32_t> woken_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

ChunkRun run_of(const Bytes& bytes, std::uint32_t chunk_bytes, std::uint32_t first = 0,
                std::uint32_t epoch = 1) {
  return {.epoch = epoch, .first_psn = first, .data = bytes, .chunk_bytes = chunk_bytes};
}

TEST(SimNetwork, MulticastReachesEveryOtherMemberOnceInOrder) {
  Hosts hosts(5);
  const Bytes data = counted_bytes(10'000, 3);
  auto posted = hosts[2].multicast(0).post(run_of(data, 4096, 40));
  ASSERT_TRUE(posted.ok());
  EXPECT_EQ(*posted, 3u);
  EXPECT_EQ(hosts[2].multicast(0).unsent_bytes(), data.size());
  hosts.run_for(100'000);
  EXPECT_EQ(hosts[2].multicast(0).unsent_bytes(), 0u);
  for (std::size_t r = 0; r < 5; ++r) {
    const auto chunks = hosts.take_chunks(r);
    ASSERT_EQ(chunks.size(), r == 2 ? 0u : 3u);
    EXPECT_EQ(hosts.woken(r), chunks.size());
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      EXPECT_EQ(chunks[i].first, 40 + i);
      const auto from = data.begin() + static_cast<std::ptrdiff_t>(i * 4096);
      EXPECT_TRUE(std::equal(chunks[i].second.begin(), chunks[i].second.end(), from));
    }
  }
  EXPECT_EQ(hosts.network().payloads().live(), 0u);
}

TEST(SimNetwork, BytesOfAChunk_areReadWhenTheChunkLeavesTheNic) {
  NicSettings nic;
  nic.burst_packets = 1;
  Hosts hosts(2, nic);
  Bytes data = counted_bytes(4 * 4096, 0);
  ASSERT_TRUE(hosts[0].multicast(0).post(run_of(data, 4096)).ok());
  std::fill(data.begin() + 3 * 4096, data.end(), std::byte{0xee});
  hosts.run_for(100'000);
  const auto chunks = hosts.take_chunks(1);
  ASSERT_EQ(chunks.size(), 4u);
  EXPECT_EQ(chunks[3].second, Bytes(4096, std::byte{0xee}));
}

TEST(SimNetwork, ChunksWithoutAPostedReceiveAreLostAndCounted) {
  NicSettings nic;
  nic.staging_chunks = 3;
  Hosts hosts(2, nic);
  const Bytes data = counted_bytes(5 * 512, 0);
  ASSERT_TRUE(hosts[0].multicast(0).post(run_of(data, 512)).ok());
  hosts.run_for(100'000);
  EXPECT_EQ(hosts[1].counters().kernel_drops, 2u);
  EXPECT_EQ(hosts.take_chunks(1).size(), 3u);
  ASSERT_TRUE(hosts[0].multicast(0).post(run_of(data, 512, 9)).ok());
  hosts.run_for(100'000);
  EXPECT_EQ(hosts.take_chunks(1)[0].first, 9u) << "released receives must be posted again";
  EXPECT_EQ(hosts.network().payloads().live(), 0u);
}

TEST(SimNetwork, ChunkRun_longerThanTheRoomInTheSendQueue_isAcceptedInPart) {
  NicSettings nic;
  nic.send_queue_chunks = 4;
  nic.burst_packets = 1;
  Hosts hosts(2, nic);
  const Bytes data = counted_bytes(8 * 1024, 0);
  EXPECT_EQ(*hosts[0].multicast(0).post(run_of(data, 1024)), 4u);
  EXPECT_EQ(*hosts[0].multicast(0).post(run_of(data, 1024)), 1u)
      << "one chunk is already on the wire";
  EXPECT_EQ(*hosts[0].multicast(0).post(run_of(data, 1024)), 0u);
  EXPECT_EQ(hosts[0].counters().send_queue_full, 3u);
  hosts.run_for(100'000);
  EXPECT_EQ(*hosts[0].multicast(0).post(run_of(data, 1024)), 4u);
  EXPECT_FALSE(hosts[0].multicast(0).post(run_of(data, 5000)).ok())
      << "a chunk longer than a packet";
}

TEST(SimNetwork, ChunksAppearAfterTheReceiveLatency) {
  NicSettings nic;
  nic.receive_latency = Nanoseconds(50'000);
  Hosts hosts(2, nic);
  const Bytes data = counted_bytes(100, 0);
  ASSERT_TRUE(hosts[0].multicast(0).post(run_of(data, 100)).ok());
  hosts.run_for(40'000);
  EXPECT_EQ(hosts.woken(1), 1u);
  EXPECT_TRUE(hosts.take_chunks(1).empty());
  hosts.run_for(20'000);
  EXPECT_EQ(hosts.take_chunks(1).size(), 1u);
}

TEST(SimNetwork, Probe_isReportedWithItsSourceAndSubgroup) {
  EndpointOptions options;
  options.subgroups = 3;
  Hosts hosts(3, {}, options);
  ASSERT_TRUE(hosts[1].multicast(2).post_probe(0, 0).ok());
  hosts.run_for(10'000);
  EXPECT_TRUE(hosts.poll(1).empty());
  for (const std::size_t r : {0u, 2u}) {
    const auto completions = hosts.poll(r);
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].opcode, Opcode::probe);
    EXPECT_EQ(completions[0].peer, rank_of(1));
    EXPECT_EQ(completions[0].immediate, 2u);
  }
}

TEST(SimNetwork, ChunkWithAlteredBytes_failsItsIntegrityCheck) {
  auto plan = fault::FaultPlan::parse("corrupt receiver chunk psn=1");
  ASSERT_TRUE(plan.ok());
  Hosts hosts(2);
  const Bytes data = counted_bytes(3 * 64, 0);
  ASSERT_TRUE(hosts[0].multicast(0).post(run_of(data, 64)).ok());
  hosts.run_for(10'000);
  std::array<ReceivedChunk, 3> chunks;
  MulticastQueuePair& pair = hosts[1].multicast(0);
  ASSERT_EQ(pair.poll(chunks), 3u);
  Bytes damaged(wire::kHeaderBytes + 64);
  std::memcpy(damaged.data(), chunks[1].header, damaged.size());
  for (std::size_t bit = wire::kTagOffset * 8; bit < damaged.size() * 8; ++bit) {
    damaged[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    ReceivedChunk altered = chunks[1];
    altered.header = damaged.data();
    altered.payload = std::span(damaged).subspan(wire::kHeaderBytes);
    EXPECT_FALSE(pair.copy_and_verify(altered, nullptr)) << "bit " << bit;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
  EXPECT_TRUE(pair.copy_and_verify(chunks[1], nullptr));
  pair.release();
}

TEST(SimNetwork, ReadFromAPeer_needsNoPollAtThePeer) {
  Hosts hosts(2);
  Bytes region = counted_bytes(20'000, 9);
  const MemoryKey key = *hosts[1].register_memory(region);
  Bytes local(20'000);
  ASSERT_TRUE(hosts[0]
                  .post(hosts.now(), {.opcode = Opcode::read,
                                      .peer = rank_of(1),
                                      .work_id = 5,
                                      .local = local,
                                      .remote_key = key})
                  .ok());
  EXPECT_FALSE(hosts[0].quiet());
  hosts.run_for(100'000);
  const auto done = hosts.poll(0);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].code, Code::ok);
  EXPECT_EQ(done[0].work_id, 5u);
  EXPECT_TRUE(local == region);
  EXPECT_TRUE(hosts[0].quiet());
  EXPECT_EQ(hosts[1].counters().read_bytes_served, 20'000u);
  EXPECT_EQ(hosts.woken(1), 0u);
}

TEST(SimNetwork, NicServicedByItsHost_answersOnlyWhenTheHostPolls) {
  NicSettings nic;
  nic.host_serviced = true;
  Hosts hosts(2, nic);
  Bytes region = counted_bytes(100, 9);
  const MemoryKey key = *hosts[1].register_memory(region);
  Bytes local(100);
  ASSERT_TRUE(
      hosts[0]
          .post(hosts.now(),
                {.opcode = Opcode::read, .peer = rank_of(1), .local = local, .remote_key = key})
          .ok());
  hosts.run_for(50'000);
  EXPECT_TRUE(hosts.poll(0).empty());
  EXPECT_GE(hosts.woken(1), 1u);
  EXPECT_NE(hosts[0].next_deadline(), kNever);
  (void)hosts.poll(1);
  hosts.run_for(50'000);
  (void)hosts.poll(0);
  hosts.run_for(50'000);
  ASSERT_EQ(hosts.poll(0).size(), 1u);
  EXPECT_TRUE(local == region);
}

/// A frame tap that drops the first frames from rank 0 to rank 1.
class LossyStart final : public FrameTap {
 public:
  unsigned copies(Rank from, Rank to, std::size_t) override {
    return from == rank_of(0) && to == rank_of(1) && lost++ < 3 ? 0 : 1;
  }
  int lost = 0;
};

TEST(SimNetwork, NicRetransmitsLostFrames) {
  const auto tap = std::make_shared<LossyStart>();
  Hosts hosts(2, {}, {}, tap);
  Bytes message = counted_bytes(50, 1);
  ASSERT_TRUE(
      hosts[0].post(hosts.now(), {.peer = rank_of(1), .work_id = 1, .local = message}).ok());
  hosts.run_for(3'000'000);
  const auto there = hosts.poll(1);
  ASSERT_EQ(there.size(), 1u);
  EXPECT_TRUE(std::equal(message.begin(), message.end(), there[0].payload.begin()));
  EXPECT_EQ(hosts[0].counters().reliable_frames_resent, 3u);
  ASSERT_EQ(hosts.poll(0).size(), 1u);
}

TEST(SimNetwork, DeadHostIsReportedOnlyToRanksThatWatchIt) {
  Hosts hosts(3);
  hosts[0].watch(rank_of(1), true);
  hosts[2].watch(rank_of(1), true);
  hosts.run_for(20'000'000);
  EXPECT_TRUE(hosts.poll(0).empty()) << "an idle peer that is alive must not be reported";
  hosts[2].watch(rank_of(1), false);
  hosts.network().kill(HostId{1});
  hosts.run_for(3'000'000);
  EXPECT_TRUE(hosts.poll(0).empty()) << "not yet";
  hosts.run_for(3'000'000);
  const auto lost = hosts.poll(0);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].opcode, Opcode::failure);
  EXPECT_EQ(lost[0].peer, rank_of(1));
  EXPECT_TRUE(hosts.poll(2).empty());
  EXPECT_EQ(hosts[0].post(hosts.now(), {.peer = rank_of(1)}).code(), Code::peer_failed);
}

TEST(SimNetwork, ImpossibleWorkIsRefused) {
  Hosts hosts(2);
  EXPECT_EQ(hosts[0].post(hosts.now(), {.peer = rank_of(0)}).code(), Code::invalid_argument);
  EXPECT_EQ(hosts[0].post(hosts.now(), {.peer = rank_of(2)}).code(), Code::invalid_argument);
  const std::array same{HostId{1}, HostId{1}};
  EXPECT_EQ(hosts.network().add_communicator(same, 1).status().code(), Code::invalid_argument);
  NicSettings none;
  none.staging_chunks = 0;
  EXPECT_EQ(check(none).code(), Code::invalid_argument);
  std::vector<std::vector<std::byte>> addresses{hosts[0].address(), hosts[1].address()};
  EXPECT_TRUE(hosts[0].connect(addresses).ok());
  addresses[1].back() ^= std::byte{1};
  EXPECT_EQ(hosts[0].connect(addresses).code(), Code::invalid_argument);
  addresses.pop_back();
  EXPECT_EQ(hosts[0].connect(addresses).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace tutti::device::sim
