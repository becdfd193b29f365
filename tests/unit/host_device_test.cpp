// Tests the `host` device alone: its rings compared with a plain queue, and endpoints of one
// process that send, write, read, multicast, apply backpressure, sleep and wake.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <thread>

#include "base/random.hpp"
#include "device/host/host_device.hpp"
#include "device/host/multicast_queue_pair.hpp"
#include "device/host/segment.hpp"
#include "device/host/shared_regions.hpp"
#include "device/host/shared_ring.hpp"
#include "device/rc/completion_queue.hpp"
#include "device/rc/rc_frame.hpp"
#include "requirements.hpp"
#include "unit/peer_memory.hpp"

namespace tutti::device::host {
namespace {

using Bytes = std::vector<std::byte>;

constexpr Nanoseconds kPeerTimeout = std::chrono::seconds(5);

Bytes pattern(std::size_t size, std::uint64_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(draw(seed, i / 8) >> (i % 8 * 8));
  return bytes;
}

struct Ring {
  explicit Ring(std::size_t capacity)
      : memory(frame_ring_bytes(capacity) / sizeof(SharedCount) + 1),
        bytes(reinterpret_cast<std::byte*>(memory.data()), frame_ring_bytes(capacity)),
        writer(bytes),
        reader(bytes) {}

  std::vector<SharedCount> memory;
  std::span<std::byte> bytes;
  FrameWriter writer;
  FrameReader reader;
};

TEST(SegmentAddress, PaddingOfTheAddress_isSentAsZeros) {
  SegmentAddress address;
  std::memset(static_cast<void*>(&address), 0xff, sizeof address);
  const Bytes sent = address.encode();
  ASSERT_EQ(sent.size(), 24u);
  EXPECT_EQ(Bytes(sent.begin() + 20, sent.end()), Bytes(4));
  const auto read = SegmentAddress::decode(sent);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->token, address.token);
  EXPECT_EQ(read->bell, address.bell);
}

TEST(FrameRing, RingThatWraps_withFramesOfAllSizes_behavesAsAQueue) {
  Ring ring(1024);
  std::deque<Bytes> queue;
  std::uint64_t refused = 0;
  for (std::uint64_t step = 0; step < 20'000; ++step) {
    if (draw(1, step) % 2 == 0) {
      const Bytes frame = pattern(1 + draw(2, step) % 300, step);
      std::byte* const place = ring.writer.reserve(frame.size());
      if (place == nullptr) {
        ++refused;
        ASSERT_FALSE(queue.empty()) << "an empty ring must accept any frame";
        continue;
      }
      std::memcpy(place, frame.data(), frame.size());
      ring.writer.commit();
      queue.push_back(frame);
    } else {
      ASSERT_EQ(ring.reader.empty(), queue.empty());
      const auto frame = ring.reader.front();
      ASSERT_EQ(frame.empty(), queue.empty());
      if (frame.empty()) continue;
      ASSERT_EQ(Bytes(frame.begin(), frame.end()), queue.front());
      queue.pop_front();
      ring.reader.pop(frame.size());
    }
  }
  EXPECT_GT(refused, 100u);
}

TEST(FrameRing, FrameIsInvisibleBeforeItIsCommitted) {
  Ring ring(1024);
  ASSERT_NE(ring.writer.reserve(100), nullptr);
  EXPECT_TRUE(ring.reader.empty());
  EXPECT_TRUE(ring.reader.front().empty());
}

TEST(FrameRing, FrameOfImpossibleLength_marksTheRingBroken) {
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{2000}, kSkip - 1}) {
    Ring ring(1024);
    ASSERT_NE(ring.writer.reserve(100), nullptr);
    ring.writer.commit();
    std::memcpy(&ring.bytes[sizeof(FrameRingControl)], &length, sizeof length);
    EXPECT_TRUE(ring.reader.front().empty()) << length;
    EXPECT_TRUE(ring.reader.broken()) << length;
  }
}

TEST(FrameRing, WriteCounterFarBeyondTheRing_marksTheRingBroken) {
  Ring ring(1024);
  std::memcpy(&ring.bytes[sizeof(FrameRingControl)], &kSkip, sizeof kSkip);
  reinterpret_cast<FrameRingControl*>(ring.bytes.data())->written.value = 3 * 1024;
  EXPECT_TRUE(ring.reader.front().empty());
  EXPECT_TRUE(ring.reader.broken());
}

TEST(ChunkRing, WriteCounterFarBeyondTheRing_isRejected) {
  std::vector<Segment> segments;
  for (int rank = 0; rank < 2; ++rank) {
    auto segment = Segment::create({.ranks = 2, .subgroups = 1});
    ASSERT_TRUE(segment.ok()) << segment.status().to_string();
    segments.push_back(std::move(*segment));
  }
  const ChunkRing peers = segments[1].chunks(0);
  const ChunkHead probe{.probe = 1};
  for (std::uint32_t slot = 0; slot < peers.shape().slots; ++slot) {
    std::memcpy(peers.slot(slot), &probe, sizeof probe);
  }
  peers.written() = 100 * std::uint64_t{peers.shape().slots};
  HostMulticastQueuePair pair(Rank{0}, 0, segments);
  pair.connect();
  std::array<ReceivedChunk, 4> chunks;
  EXPECT_EQ(pair.poll(chunks), 0u);
  EXPECT_TRUE(pair.take_probes().empty());
  EndpointCounters counters;
  pair.add_to(counters);
  EXPECT_EQ(counters.rejected_foreign, 1u);
  EXPECT_FALSE(pair.pending());
}

class Host : public testing::Test {
 protected:
  void open(std::uint32_t ranks, std::uint32_t subgroups = 1) {
    make(ranks, subgroups);
    connect();
  }
  void make(std::uint32_t ranks, std::uint32_t subgroups = 1) {
    std::vector<Rank> local;
    for (std::uint32_t r = 0; r < ranks; ++r) local.push_back(rank_of(r));
    for (std::uint32_t r = 0; r < ranks; ++r) {
      auto endpoint = HostDevice().open({.rank = rank_of(r),
                                         .size = ranks,
                                         .communicator = 1,
                                         .subgroups = subgroups,
                                         .group_seed = {},
                                         .local_ranks = local,
                                         .peer_timeout = kPeerTimeout});
      ASSERT_TRUE(endpoint.ok()) << endpoint.status().to_string();
      addresses_.push_back((*endpoint)->address());
      ranks_.push_back(std::move(*endpoint));
    }
    arrived_.resize(ranks);
  }
  /// Hides the memory of a rank from the other ranks, as if the system forbade reading it.
  void hide_memory(std::uint32_t rank) {
    const auto address = SegmentAddress::decode(addresses_[rank]);
    ASSERT_TRUE(address.ok());
    void* const head = ::mmap(nullptr, sizeof(SegmentHead), PROT_READ | PROT_WRITE, MAP_SHARED,
                              address->memory, 0);
    ASSERT_NE(head, MAP_FAILED);
    static_cast<SegmentHead*>(head)->token_address = 0;
    ::munmap(head, sizeof(SegmentHead));
  }
  void connect() {
    for (auto& one : ranks_) {
      const Status status = one->connect(addresses_);
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
  }

  Endpoint& at(std::uint32_t rank) { return *ranks_[rank]; }

  struct Arrival {
    Completion completion;
    Bytes payload;
  };

  /// Polls all endpoints, in virtual time, until no endpoint has work left.
  void settle() {
    int idle = 0;
    while (idle < 8) {
      now_ = now_ + Nanoseconds(10'000);
      bool any = false;
      for (std::uint32_t r = 0; r < ranks_.size(); ++r) any |= poll(r) > 0;
      const bool quiet =
          std::all_of(ranks_.begin(), ranks_.end(), [](const auto& one) { return one->quiet(); });
      idle = any || !quiet ? 0 : idle + 1;
    }
  }

  /// Posts a work request at rank 0 whose peer is rank 1.
  Status post(WorkRequest request) {
    request.peer = rank_of(1);
    return at(0).post(now_, request);
  }
  Status post_read(MemoryKey key, std::span<std::byte> to, std::uint64_t offset = 0) {
    return post({.opcode = Opcode::read, .local = to, .remote_key = key, .remote_offset = offset});
  }

  std::size_t poll(std::uint32_t rank) {
    std::array<Completion, 16> completions;
    const std::size_t count = at(rank).poll(now_, completions);
    for (std::size_t i = 0; i < count; ++i) {
      const auto payload = completions[i].payload;
      arrived_[rank].push_back({completions[i], {payload.begin(), payload.end()}});
    }
    return count;
  }

  std::vector<std::unique_ptr<Endpoint>> ranks_;
  std::vector<Bytes> addresses_;
  std::vector<std::vector<Arrival>> arrived_;
  Instant now_{1'000'000'000};
};

TEST_F(Host, MessagesArriveInOrder) {
  open(3);
  constexpr std::uint64_t kMessages = 500;
  std::vector<Bytes> sent;
  for (std::uint64_t i = 0; i < kMessages; ++i) sent.push_back(pattern(1 + draw(5, i) % 16'000, i));
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(at(i % 2).post(now_, {.peer = rank_of(2), .work_id = i, .local = sent[i]}).ok());
  }
  settle();
  ASSERT_EQ(arrived_[2].size(), kMessages);
  std::array<std::uint64_t, 2> next{0, 1};
  for (const Arrival& one : arrived_[2]) {
    std::uint64_t& i = next[index(one.completion.peer)];
    ASSERT_EQ(one.payload, sent[i]);
    i += 2;
  }
  // The messages exceed the capacity of the ring, and none may be lost.
  EXPECT_EQ(at(0).counters().reliable_frames_resent, 0u);
}

TEST_F(Host, FramesBeyondTheLimitOfWaitingCompletions_stayInTheRing) {
  open(2);
  Bytes message = pattern(8, 1);
  std::size_t posted = 0;
  for (int round = 0; round < 500; ++round) {
    now_ = now_ + Nanoseconds(10'000);
    while (posted < 20'000 &&
           post({.opcode = Opcode::send, .local = message, .signaled = false}).ok())
      ++posted;
    poll(0);
    at(1).poll(now_, {});  // takes no completion
  }
  const std::uint64_t received = at(1).counters().reliable_frames_received;
  EXPECT_GE(received, rc::CompletionQueue::kMost);
  EXPECT_LT(received, rc::CompletionQueue::kMost + 64);
  EXPECT_FALSE(at(1).prepare_wait()) << "a rank must not sleep while completions wait";
  settle();
  EXPECT_GT(posted, received);
  EXPECT_EQ(arrived_[1].size(), posted);
}

TEST_F(Host, WritesAndReadsReachRegisteredMemoryOnly) {
  open(2);
  Bytes region(3 << 20);
  Bytes source = pattern(2 << 20, 9);
  Bytes back(2 << 20);
  const MemoryKey key = at(1).register_memory(region).value();
  ASSERT_TRUE(post({.opcode = Opcode::write_immediate,
                    .work_id = 1,
                    .local = source,
                    .remote_key = key,
                    .remote_offset = 1000,
                    .immediate = 77})
                  .ok());
  settle();
  ASSERT_EQ(arrived_[1].size(), 1u);
  EXPECT_EQ(arrived_[1][0].completion.immediate, 77u);
  EXPECT_EQ(0, std::memcmp(&region[1000], source.data(), source.size()));
  ASSERT_TRUE(post_read(key, back, 1000).ok());
  settle();
  EXPECT_EQ(back, source);
  at(1).deregister_memory(key);
  ASSERT_TRUE(
      post({.opcode = Opcode::write, .work_id = 3, .local = source, .remote_key = key}).ok());
  settle();
  EXPECT_NE(arrived_[0].back().completion.code, Code::ok);
}

TEST_F(Host, Read_isCopiedByTheReader_withoutThePeer) {
  if (!test::reads_processes())
    return test::skip_without("peermemory", "process_vm_readv is refused");
  open(2);
  Bytes source = pattern(3 << 20, 9);
  Bytes back(2 << 20);
  const MemoryKey key = at(1).register_memory(source).value();
  ASSERT_TRUE(post_read(key, back, 1000).ok());
  EXPECT_FALSE(at(0).prepare_wait()) << "a rank must not sleep while it has bytes to copy";
  for (int i = 0; i < 10 && arrived_[0].empty(); ++i) poll(0);
  ASSERT_EQ(arrived_[0].size(), 1u);
  EXPECT_EQ(arrived_[0][0].completion.opcode, Opcode::read);
  EXPECT_EQ(arrived_[0][0].completion.code, Code::ok);
  EXPECT_EQ(0, std::memcmp(back.data(), &source[1000], back.size()));
  EXPECT_EQ(at(0).counters().read_bytes_direct, back.size());
  EXPECT_EQ(at(0).counters().reliable_frames_sent, 0u);
}

TEST_F(Host, ReadBehindAWrite_seesTheWrittenBytes) {
  if (!test::reads_processes())
    return test::skip_without("peermemory", "process_vm_readv is refused");
  open(2);
  Bytes region(1 << 20);
  Bytes source = pattern(1 << 20, 9);
  Bytes back(1 << 20);
  const MemoryKey key = at(1).register_memory(region).value();
  ASSERT_TRUE(
      post({.opcode = Opcode::write, .local = source, .remote_key = key, .signaled = false}).ok());
  ASSERT_TRUE(post_read(key, back).ok());
  settle();
  EXPECT_EQ(back, source);
  EXPECT_EQ(at(0).counters().read_bytes_direct, 0u);
  EXPECT_EQ(at(1).counters().read_bytes_served, back.size());
  ASSERT_TRUE(post_read(key, back).ok());
  settle();
  EXPECT_EQ(at(0).counters().read_bytes_direct, back.size()) << "the WRITE is completed now";
}

TEST_F(Host, ReadOfARegionDeregisteredMeanwhile_isRefused) {
  open(2);
  Bytes source = pattern(1000, 9);
  Bytes back(1000);
  const MemoryKey key = at(1).register_memory(source).value();
  ASSERT_TRUE(post_read(key, back).ok());
  at(1).deregister_memory(key);
  settle();
  ASSERT_EQ(arrived_[0].size(), 1u);
  EXPECT_NE(arrived_[0][0].completion.code, Code::ok);
  EXPECT_EQ(at(0).counters().read_bytes_direct, 0u);
}

TEST_F(Host, ReadBeyondItsRegion_isRefused) {
  open(2);
  Bytes source = pattern(1000, 9);
  Bytes back(1000);
  const MemoryKey key = at(1).register_memory(source).value();
  ASSERT_TRUE(post_read(key, back, 1).ok());
  ASSERT_TRUE(post_read(key, back, UINT64_MAX).ok());
  settle();
  ASSERT_EQ(arrived_[0].size(), 2u);
  for (const Arrival& one : arrived_[0]) EXPECT_NE(one.completion.code, Code::ok);
  EXPECT_EQ(at(0).counters().read_bytes_direct, 0u);
}

TEST_F(Host, ReadsOfMoreRegionsThanArePublished_areServedByThePeer) {
  if (!test::reads_processes())
    return test::skip_without("peermemory", "process_vm_readv is refused");
  open(2);
  constexpr std::size_t kMore = 44;
  constexpr std::size_t kRegions = SharedRegions::kRegions + kMore;
  constexpr std::size_t kBytes = 500;
  Bytes source = pattern(kRegions * kBytes, 9);
  Bytes back(source.size());
  for (std::size_t i = 0; i < kRegions; ++i) {
    const auto key = at(1).register_memory(std::span(source).subspan(i * kBytes, kBytes));
    ASSERT_TRUE(key.ok());
    ASSERT_TRUE(post_read(*key, std::span(back).subspan(i * kBytes, kBytes)).ok());
  }
  settle();
  EXPECT_EQ(back, source);
  EXPECT_EQ(at(0).counters().read_bytes_direct, SharedRegions::kRegions * kBytes);
  EXPECT_EQ(at(1).counters().read_bytes_served, kMore * kBytes);
}

TEST_F(Host, Read_ifThePeerForbidsDirectAccess_isServedByThePeer) {
  make(2);
  hide_memory(1);
  connect();
  Bytes source = pattern(100'000, 9);
  Bytes back(source.size());
  const MemoryKey key = at(1).register_memory(source).value();
  ASSERT_TRUE(post_read(key, back).ok());
  settle();
  EXPECT_EQ(back, source);
  EXPECT_EQ(at(0).counters().read_bytes_direct, 0u);
  EXPECT_EQ(at(1).counters().read_bytes_served, back.size());
}

TEST_F(Host, AbandonedRead_hasNoFurtherEffect) {
  open(2);
  Bytes source = pattern(1000, 9);
  Bytes back(1000);
  const MemoryKey key = at(1).register_memory(source).value();
  ASSERT_TRUE(post_read(key, back).ok());
  at(0).abandon();
  settle();
  EXPECT_EQ(back, Bytes(1000));
}

TEST_F(Host, Multicast_underBackpressure_reachesEveryRankOnce) {
  open(3, 2);
  const std::uint32_t chunk = at(0).capabilities().max_chunk_bytes;
  const Bytes data = pattern(100 * std::size_t{chunk} + 5, 3);
  std::vector<Bytes> got(3, Bytes(data.size()));
  std::vector<std::size_t> chunks(3);
  std::uint32_t posted = 0;
  const std::uint32_t all = 101;
  std::uint64_t refused = 0;
  while (chunks[1] < all || chunks[2] < all) {
    const std::size_t at_byte = std::size_t{posted} * chunk;
    if (posted < all) {
      const auto accepted = at(0).multicast(1).post({.epoch = 4,
                                                     .first_psn = posted,
                                                     .data = std::span(data).subspan(at_byte),
                                                     .chunk_bytes = chunk});
      ASSERT_TRUE(accepted.ok());
      if (posted + *accepted < all) ++refused;
      posted += *accepted;
    }
    for (const std::uint32_t r : {1u, 2u}) {
      // The slower of the two receivers must limit the sender.
      if (r == 2 && draw(8, refused) % 3 == 0) continue;
      std::array<ReceivedChunk, 7> received;
      const std::size_t count = at(r).multicast(1).poll(received);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(received[i].epoch, 4u);
        EXPECT_EQ(received[i].source, Rank{0});
        ASSERT_TRUE(at(r).multicast(1).copy_and_verify(
            received[i], &got[r][std::size_t{received[i].psn} * chunk]));
      }
      chunks[r] += count;
      if (count > 0) at(r).multicast(1).release();
    }
  }
  EXPECT_EQ(got[1], data);
  EXPECT_EQ(got[2], data);
  EXPECT_GT(refused, 2u);
  EXPECT_GT(at(0).counters().send_queue_full, 0u);
  EXPECT_EQ(at(0).counters().multicast_bytes_sent, data.size());
  EXPECT_EQ(at(1).counters().multicast_bytes_received, data.size());
}

TEST_F(Host, ProbeReachesAllOtherRanks) {
  open(3);
  ASSERT_TRUE(at(1).multicast(0).post_probe(0, 0).ok());
  for (const std::uint32_t r : {0u, 2u}) {
    std::array<ReceivedChunk, 4> none;
    EXPECT_EQ(at(r).multicast(0).poll(none), 0u);
    ASSERT_EQ(poll(r), 1u);
    EXPECT_EQ(arrived_[r][0].completion.opcode, Opcode::probe);
    EXPECT_EQ(arrived_[r][0].completion.peer, Rank{1});
  }
}

bool rings(Endpoint& endpoint, int timeout_ms) {
  pollfd bell{endpoint.wait_descriptor(), POLLIN, 0};
  return ::poll(&bell, 1, timeout_ms) == 1;
}

TEST_F(Host, OnlySleepingRanksAreWoken) {
  open(2);
  Bytes message = pattern(10, 1);
  ASSERT_TRUE(at(0).post(now_, {.peer = rank_of(1), .local = message}).ok());
  poll(0);
  EXPECT_FALSE(rings(at(1), 0));
  // A rank must not sleep while an arrived message waits for the rank's poll.
  EXPECT_FALSE(at(1).prepare_wait());
  poll(1);
  EXPECT_EQ(arrived_[1].size(), 1u);
  ASSERT_TRUE(at(1).prepare_wait());
  ASSERT_TRUE(at(0).post(now_, {.peer = rank_of(1), .local = message}).ok());
  poll(0);
  EXPECT_TRUE(rings(at(1), 5000));
  EXPECT_EQ(at(0).counters().send_calls, 1u);
  poll(1);
  EXPECT_EQ(arrived_[1].size(), 2u);
  EXPECT_FALSE(rings(at(1), 0)) << "a poll must clear the wake-up";
}

TEST_F(Host, EntryOfAnExchangeThatThisRankHasLeft_doesNotPreventSleep) {
  open(2);
  const ExchangeHeader header{.block_bytes = 8};
  const Bytes block = pattern(8, 1);
  ASSERT_TRUE(at(0).slot_exchange()->enter(header, block).ok());
  EXPECT_TRUE(at(0).prepare_wait());
  ASSERT_TRUE(at(1).slot_exchange()->enter(header, block).ok());
  EXPECT_FALSE(at(0).prepare_wait()) << "a rank must not sleep while it has an entry to read";
  at(0).slot_exchange()->leave();
  EXPECT_TRUE(at(0).slot_exchange()->missing().empty());
  EXPECT_TRUE(at(0).prepare_wait());
}

TEST_F(Host, LoneAck_wakesOnlyARankThatAwaitsACompletion) {
  open(2);
  Bytes region(100);
  Bytes data = pattern(100, 1);
  const MemoryKey key = at(1).register_memory(region).value();
  const auto acknowledge = [&] {
    poll(1);
    now_ = now_ + Nanoseconds(600'000);  // longer than the ACKs of this test may wait
    poll(1);
  };
  ASSERT_TRUE(at(0).post(now_, {.peer = rank_of(1), .local = data, .signaled = false}).ok());
  poll(0);
  ASSERT_TRUE(at(0).prepare_wait());
  acknowledge();
  EXPECT_FALSE(rings(at(0), 0));
  poll(0);
  ASSERT_TRUE(post({.opcode = Opcode::write, .work_id = 1, .local = data, .remote_key = key}).ok());
  poll(0);
  ASSERT_TRUE(at(0).prepare_wait());
  acknowledge();
  EXPECT_TRUE(rings(at(0), 5000));
  poll(0);
  ASSERT_EQ(arrived_[0].size(), 1u) << "only the WRITE must report a completion";
  EXPECT_EQ(arrived_[0][0].completion.code, Code::ok);
}

// Rank 0 waits for a dead peer and questions rank 1, which sleeps. Without an answer of rank 1, the
// error of rank 0 would name both the dead peer and rank 0.
TEST_F(Host, QuestionToASleepingRank_wakesIt_soThatOnlyTheDeadPeerIsBlamed) {
  open(3);
  ASSERT_TRUE(at(1).prepare_wait());
  at(0).watch(rank_of(2), true);
  for (int step = 0; step < 800 && arrived_[0].empty(); ++step) {
    now_ = now_ + kPeerTimeout / 500;
    if (rings(at(1), 0)) {
      poll(1);
      ASSERT_TRUE(at(1).prepare_wait());
    }
    poll(0);
  }
  ASSERT_EQ(arrived_[0].size(), 1u);
  EXPECT_EQ(arrived_[0][0].completion.opcode, Opcode::failure);
  EXPECT_EQ(arrived_[0][0].completion.peer, rank_of(2));
  EXPECT_EQ(arrived_[0][0].completion.blame, Blame::peer);
}

// Back-to-back broadcasts fill the send window, and their caller sleeps while frames are still
// queued.
TEST_F(Host, Ack_wakesASleepingRankWithAFullSendWindow) {
  open(2);
  constexpr std::size_t kMessages = 200;
  Bytes message = pattern(8, 1);
  for (std::size_t i = 0; i < kMessages; ++i) {
    const Status posted =
        at(0).post(now_, {.peer = rank_of(1), .local = message, .signaled = false});
    ASSERT_TRUE(posted.ok()) << posted.to_string();
  }
  poll(0);
  for (int round = 0; arrived_[1].size() < kMessages; ++round) {
    ASSERT_LT(round, 200) << arrived_[1].size() << " messages have arrived";
    ASSERT_TRUE(at(0).prepare_wait());
    poll(1);
    EXPECT_TRUE(arrived_[1].size() == kMessages || rings(at(0), 5000));
    poll(0);
  }
}

TEST_F(Host, OwedAckThatFoundAFullRing_isSentOnceThePeerHasReadFrames) {
  constexpr std::uint32_t kRanks = 20;  // so many ranks that four frames in flight fill a ring
  open(kRanks);
  Bytes region(100);
  Bytes data = pattern(100, 1);
  const MemoryKey key = at(0).register_memory(region).value();
  ASSERT_TRUE(at(1)
                  .post(now_, {.opcode = Opcode::write,
                               .peer = rank_of(0),
                               .work_id = 1,
                               .local = data,
                               .remote_key = key})
                  .ok());
  poll(1);
  constexpr std::size_t kMessages = 4;
  const std::size_t record = SegmentShape{kRanks, 1}.frame_capacity_bytes() / kMessages;
  Bytes message(record - kRecordHeadBytes - rc::kRcSendHeaderBytes);
  for (std::size_t i = 0; i < kMessages; ++i)
    ASSERT_TRUE(post({.opcode = Opcode::send, .local = message, .signaled = false}).ok());
  poll(0);
  EXPECT_EQ(at(0).counters().send_queue_full, 1u) << "only the ACK must find the ring full";
  ASSERT_TRUE(at(0).prepare_wait());
  poll(1);
  EXPECT_EQ(arrived_[1].size(), kMessages) << "the WRITE must not complete yet";
  now_ = now_ + Nanoseconds(600'000);  // longer than an ACK of this test may wait
  poll(1);
  EXPECT_TRUE(rings(at(0), 0));
  poll(0);
  poll(1);
  ASSERT_EQ(arrived_[1].size(), kMessages + 1);
  EXPECT_EQ(arrived_[1].back().completion.opcode, Opcode::write);
}

TEST_F(Host, ReaderThatMakesRoomWakesTheSender) {
  open(2);
  const std::uint32_t chunk = at(0).capabilities().max_chunk_bytes;
  const Bytes data(40 * std::size_t{chunk});
  const auto accepted =
      at(0).multicast(0).post({.epoch = 1, .first_psn = 0, .data = data, .chunk_bytes = chunk});
  ASSERT_TRUE(accepted.ok());
  ASSERT_LT(*accepted, 40u);
  ASSERT_TRUE(at(0).prepare_wait());
  std::array<ReceivedChunk, 4> received;
  ASSERT_EQ(at(1).multicast(0).poll(received), 4u);
  EXPECT_FALSE(rings(at(0), 0)) << "chunks that were not released must still occupy the ring";
  at(1).multicast(0).release();
  EXPECT_TRUE(rings(at(0), 5000));
}

// If a sender with a full ring woke its readers, two such ranks would keep waking each other while
// a third rank is slow.
TEST_F(Host, SenderWithAFullRing_wakesNoReader) {
  open(3);
  const std::uint32_t chunk = at(0).capabilities().max_chunk_bytes;
  const Bytes data(40 * std::size_t{chunk});
  const ChunkRun run{.epoch = 1, .first_psn = 0, .data = data, .chunk_bytes = chunk};
  const auto accepted = at(0).multicast(0).post(run);
  ASSERT_TRUE(accepted.ok());
  ASSERT_LT(*accepted, 40u);
  std::vector<ReceivedChunk> received(40);
  ASSERT_EQ(at(1).multicast(0).poll(received), *accepted);  // rank 2 is slow and has not polled
  at(1).multicast(0).release();
  ASSERT_TRUE(at(1).prepare_wait());
  const auto refused = at(0).multicast(0).post(run);
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(*refused, 0u);
  EXPECT_FALSE(rings(at(1), 0));
  EXPECT_EQ(at(0).counters().send_calls, 0u);
  // Rank 2, the slow rank, makes room now, so that the sender can post again. The new data must
  // wake the sleeping rank 1.
  ASSERT_EQ(at(2).multicast(0).poll(received), *accepted);
  at(2).multicast(0).release();
  ASSERT_GT(at(0).multicast(0).post(run).value(), 0u);
  EXPECT_TRUE(rings(at(1), 5000));
}

TEST_F(Host, SilentPeerIsReportedLost) {
  open(2);
  at(0).watch(Rank{1}, true);
  for (int i = 0; i < 100 && arrived_[0].empty(); ++i) {
    now_ = now_ + kPeerTimeout / 20;
    poll(0);
  }
  ASSERT_EQ(arrived_[0].size(), 1u);
  EXPECT_EQ(arrived_[0][0].completion.opcode, Opcode::failure);
  EXPECT_EQ(arrived_[0][0].completion.peer, Rank{1});
}

TEST(HostDevice, UnreadableMemoryOfAPeer_isReportedWithTheRemedy) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  std::vector<Rank> both{Rank{0}, Rank{1}};
  auto endpoint = HostDevice().open({.rank = Rank{0},
                                     .size = 2,
                                     .communicator = 1,
                                     .subgroups = 1,
                                     .group_seed = {},
                                     .local_ranks = both,
                                     .peer_timeout = kPeerTimeout});
  ASSERT_TRUE(endpoint.ok());
  const SegmentAddress gone{.token = 1, .process = child, .memory = 3, .bell = 4};
  const std::vector<Bytes> addresses{(*endpoint)->address(), gone.encode()};
  const Status status = (*endpoint)->connect(addresses);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.to_string();
  EXPECT_NE(status.message().find("TUTTI_DEVICE=ip"), std::string::npos) << status.to_string();
}

}  // namespace
}  // namespace tutti::device::host
