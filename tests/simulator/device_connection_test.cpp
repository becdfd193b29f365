// Tests the reliable connection of the simulated NIC between two ends whose network loses,
// duplicates and reorders packets, in virtual time that the test advances.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/random.hpp"
#include "bitwise_atomics.hpp"
#include "count_wanted.hpp"
#include "device/atomics.hpp"
#include "sim/device/nic_connection.hpp"

namespace tutti::device::sim {
namespace {

using Bytes = std::vector<std::byte>;

struct Network {
  std::uint64_t lose_ppm = 0;
  std::uint64_t duplicate_ppm = 0;
  std::uint64_t overtake_ppm = 0;
};

Bytes random_bytes(Random& random, std::size_t size) {
  Bytes bytes(size);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random.next());
  return bytes;
}

/// The two ends of a connection, and the packets on the wire between them.
class Pair {
 public:
  explicit Pair(std::uint64_t seed, Network network = {}, NicSettings settings = {})
      : random_(seed), network_(network) {
    for (int end = 0; end < 2; ++end) {
      nics_[end].settings = settings;
      nics_[end].peer_timeout = Nanoseconds(50'000'000);
      nics_[end].payloads = &payloads_;
    }
  }
  ~Pair() {
    for (int end = 0; end < 2; ++end) connections_[end].clear(nics_[end]);
    for (auto& wire : wires_) {
      for (const NicPacket& packet : wire) payloads_.release(packet.payload);
    }
  }

  NicShared& nic(int end) { return nics_[end]; }
  NicConnection& operator[](int end) { return connections_[end]; }
  Random& random() { return random_; }
  Instant now() const { return now_; }
  std::vector<Completion>& completions(int end) { return completions_[end]; }
  std::vector<Bytes>& messages(int end) { return messages_[end]; }
  const PayloadStore& payloads() const { return payloads_; }
  bool cut = false;  ///< whether the network is cut, so that no packet arrives

  Status post(int end, const WorkRequest& request) {
    return connections_[end].post(nics_[end], now_, request);
  }

  /// Advances time by a microsecond.
  void step() {
    now_ = now_ + Nanoseconds(1'000);
    for (int end = 0; end < 2; ++end) {
      NicPacket packet;
      while (connections_[end].next_packet(nics_[end], now_, packet)) send(end, packet);
    }
    for (int end = 0; end < 2; ++end) {
      std::vector<NicPacket> arrived;
      arrived.swap(wires_[1 - end]);
      for (const NicPacket& one : arrived) connections_[end].on_packet(nics_[end], now_, one);
      if (connections_[end].next_deadline(nics_[end]) <= now_) {
        connections_[end].on_timer(nics_[end], now_);
        EXPECT_GT(connections_[end].next_deadline(nics_[end]), now_);
      }
      collect(end);
    }
  }
  bool run_until_quiet(int most_steps = 2'000'000) {
    for (int i = 0; i < most_steps; ++i) {
      step();
      if (connections_[0].quiet() && connections_[1].quiet() && wires_[0].empty() &&
          wires_[1].empty() && nics_[0].completions.empty() && nics_[1].completions.empty()) {
        return true;
      }
    }
    return false;
  }

 private:
  void send(int end, const NicPacket& packet) {
    std::vector<NicPacket>& wire = wires_[end];
    if (cut || random_.chance_ppm(network_.lose_ppm)) {
      payloads_.release(packet.payload);
      return;
    }
    wire.push_back(packet);
    if (random_.chance_ppm(network_.duplicate_ppm)) {
      if (packet.payload != nullptr) ++packet.payload->references;
      wire.push_back(packet);
    }
    if (wire.size() > 1 && random_.chance_ppm(network_.overtake_ppm)) {
      std::swap(wire.back(), wire[random_.below(wire.size())]);
    }
  }
  void collect(int end) {
    std::array<Completion, 16> batch;
    for (std::size_t count = 1; count > 0;) {
      count = nics_[end].completions.take(now_, batch, payloads_);
      for (std::size_t i = 0; i < count; ++i) {
        completions_[end].push_back(batch[i]);
        const bool message = batch[i].opcode == Opcode::receive && !batch[i].payload.empty();
        if (message) messages_[end].emplace_back(batch[i].payload.begin(), batch[i].payload.end());
      }
    }
  }

  Random random_;
  Network network_;
  PayloadStore payloads_;
  std::array<NicShared, 2> nics_;
  std::array<NicConnection, 2> connections_{NicConnection(rank_of(1)), NicConnection(rank_of(0))};
  std::array<std::vector<NicPacket>, 2> wires_;
  std::array<std::vector<Completion>, 2> completions_;
  std::array<std::vector<Bytes>, 2> messages_;
  Instant now_{1'000};
};

WorkRequest request_of(Opcode opcode, std::span<std::byte> local, MemoryKey key = {},
                       std::uint64_t offset = 0, std::uint64_t work_id = 0) {
  return {.opcode = opcode,
          .work_id = work_id,
          .local = local,
          .remote_key = key,
          .remote_offset = offset};
}

TEST(NicConnection, ImpossibleWorkIsRefused) {
  Pair pair(1);
  Bytes longer(pair.nic(0).settings.chunk_bytes + 1);
  EXPECT_EQ(pair.post(0, request_of(Opcode::send, longer)).code(), Code::invalid_argument);
  EXPECT_EQ(pair.post(0, request_of(Opcode::receive, {})).code(), Code::invalid_argument);
}

TEST(NicConnection, MessageIsCopiedWhenItIsPosted) {
  Pair pair(2);
  Bytes message(10, std::byte{1});
  ASSERT_TRUE(pair.post(0, request_of(Opcode::send, message)).ok());
  std::fill(message.begin(), message.end(), std::byte{2});
  ASSERT_TRUE(pair.run_until_quiet());
  ASSERT_EQ(pair.messages(1).size(), 1u);
  EXPECT_EQ(pair.messages(1)[0], Bytes(10, std::byte{1}));
  EXPECT_EQ(pair.payloads().live(), 0u)
      << "the NIC must get its payload memory back after the message was polled";
}

TEST(NicConnection, WorkWithABadKey_fails_andOtherWorkSucceeds) {
  Pair pair(3);
  Bytes local(10'000);
  Bytes region(10'000);
  const MemoryKey good = *pair.nic(1).regions.add(region);
  const MemoryKey bad{good.key + 1};
  ASSERT_TRUE(pair.post(0, request_of(Opcode::write, local, bad, 0, 1)).ok());
  ASSERT_TRUE(pair.post(0, request_of(Opcode::read, local, bad, 0, 2)).ok());
  ASSERT_TRUE(pair.post(0, request_of(Opcode::read, local, good, 1, 3)).ok())
      << "the READ is one byte too long";
  ASSERT_TRUE(pair.post(0, request_of(Opcode::write, local, good, 0, 4)).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  ASSERT_EQ(pair.completions(0).size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(pair.completions(0)[i].work_id, i + 1);
    EXPECT_EQ(pair.completions(0)[i].code, i < 3 ? Code::invalid_argument : Code::ok) << i;
  }
}

TEST(NicConnection, RestOfARead_whoseRegionWasRemoved_isRefused) {
  NicSettings slow;
  slow.window_packets = 2;
  Pair pair(4, {}, slow);
  Bytes local(40'000);
  Bytes region(40'000);
  const MemoryKey key = *pair.nic(1).regions.add(region);
  ASSERT_TRUE(pair.post(0, request_of(Opcode::read, local, key, 0, 1)).ok());
  pair.step();
  pair.step();
  pair.nic(1).regions.remove(key);
  ASSERT_TRUE(pair.run_until_quiet());
  ASSERT_EQ(pair.completions(0).size(), 1u);
  EXPECT_EQ(pair.completions(0)[0].code, Code::invalid_argument);
}

TEST(NicConnection, RefusedWork_onALossyNetwork_fails_andOtherWorkSucceeds) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Pair pair(seed, {.lose_ppm = 200'000});
    pair.nic(0).peer_timeout = pair.nic(1).peer_timeout = Nanoseconds(100'000'000'000);
    Bytes bytes(10);
    for (std::uint64_t id = 0; id < 40; ++id) {
      const Opcode opcode = id % 4 == 0 ? Opcode::read : id % 4 == 2 ? Opcode::write : Opcode::send;
      for (int end = 0; end < 2; ++end)
        ASSERT_TRUE(pair.post(end, request_of(opcode, bytes, {}, 0, id)).ok());
    }
    ASSERT_TRUE(pair.run_until_quiet()) << "seed " << seed;
    for (int end = 0; end < 2; ++end) {
      for (const Completion& one : pair.completions(end)) {
        const bool refused = one.opcode == Opcode::read || one.opcode == Opcode::write;
        EXPECT_EQ(one.code, refused ? Code::invalid_argument : Code::ok);
      }
      EXPECT_EQ(
          std::ranges::count(pair.completions(end), Code::invalid_argument, &Completion::code), 20);
      EXPECT_EQ(pair.messages(end).size(), 20u);
    }
  }
}

TEST(NicConnection, WorkForAPeerThatDoesNotAnswer_fails) {
  Pair pair(5);
  Bytes bytes(10);
  pair.cut = true;
  ASSERT_TRUE(pair.post(0, request_of(Opcode::send, bytes, {}, 0, 1)).ok());
  ASSERT_TRUE(pair.post(0, request_of(Opcode::read, bytes, {}, 0, 2)).ok());
  for (int i = 0; i < 51'000; ++i) pair.step();
  ASSERT_EQ(pair.completions(0).size(), 3u);
  EXPECT_EQ(pair.completions(0)[0].code, Code::peer_failed);
  EXPECT_EQ(pair.completions(0)[1].code, Code::peer_failed);
  EXPECT_EQ(pair.completions(0)[2].opcode, Opcode::failure);
  EXPECT_EQ(pair.post(0, request_of(Opcode::send, bytes)).code(), Code::peer_failed);
  EXPECT_EQ(pair[0].next_deadline(pair.nic(0)), kNever);
}

TEST(NicConnection, WatchedPeer_isReportedLost_onlyWhenItIsSilent) {
  Pair pair(6);
  pair[0].watch(pair.nic(0), pair.now(), true);
  for (int i = 0; i < 120'000; ++i) pair.step();
  EXPECT_TRUE(pair.completions(0).empty());
  pair.cut = true;
  for (int i = 0; i < 51'000; ++i) pair.step();
  ASSERT_EQ(pair.completions(0).size(), 1u);
  EXPECT_EQ(pair.completions(0)[0].opcode, Opcode::failure);
}

/// Work of end 0 that reads and writes memory of both ends; end 0 abandons it.
struct AbandonedWork {
  void post(Pair& pair) {
    const MemoryKey to = *pair.nic(1).regions.add(target);
    const MemoryKey word = *pair.nic(1).regions.add(counter);
    WorkRequest write = request_of(Opcode::write_immediate, bytes, to);
    write.immediate = 9;
    WorkRequest add = request_of(Opcode::fetch_add, old, word);
    add.atomic = AtomicOperands::fetch_add(1);
    for (const WorkRequest& one : {write, request_of(Opcode::read, read, to), add})
      ASSERT_TRUE(pair.post(0, one).ok());
  }
  void expect_no_effect(Pair& pair) const {
    ASSERT_EQ(pair.completions(0).size(), 3u);
    for (const Completion& one : pair.completions(0)) EXPECT_EQ(one.code, Code::aborted);
    EXPECT_TRUE(pair.completions(1).empty()) << "no immediate may arrive";
    EXPECT_EQ(target, Bytes(target.size())) << "no byte may arrive";
    EXPECT_EQ(counter[0], std::byte{0}) << "the atomic must not be executed";
    EXPECT_EQ(read, Bytes(read.size(), std::byte{9}));
    EXPECT_EQ(old[0], std::byte{0xff});
    EXPECT_EQ(pair.payloads().live(), 0u);
  }

  Bytes bytes = Bytes(10'000, std::byte{5});
  Bytes target = Bytes(10'000);
  Bytes read = Bytes(10'000, std::byte{9});
  alignas(8) std::array<std::byte, 8> counter{};
  std::array<std::byte, 8> old{std::byte{0xff}};
};

TEST(NicConnection, WorkAbandonedBeforeItArrives_hasNoEffect_andIsAnsweredEmpty) {
  for (const std::uint32_t window : {2u, 128u}) {
    NicSettings settings;
    settings.window_packets = window;  // with 2, a part of the WRITE is not sent yet
    Pair pair(31, {}, settings);
    AbandonedWork work;
    pair.cut = true;
    work.post(pair);
    pair.step();
    pair[0].abandon();
    work.bytes = Bytes();  // the owner frees its memory
    pair.cut = false;
    ASSERT_TRUE(pair.run_until_quiet());
    work.expect_no_effect(pair);
    Bytes message(8, std::byte{3});
    ASSERT_TRUE(pair.post(0, request_of(Opcode::send, message)).ok());
    ASSERT_TRUE(pair.run_until_quiet());
    EXPECT_EQ(pair.messages(1), std::vector<Bytes>{message}) << "later work must go on";
  }
}

TEST(NicConnection, WorkThatArrivedEarly_isNotExecuted_onceItIsAbandoned) {
  Pair pair(32);
  AbandonedWork work;
  Bytes lost(8);
  WorkRequest first = request_of(Opcode::send, lost);
  first.signaled = false;
  pair.cut = true;
  ASSERT_TRUE(pair.post(0, first).ok());
  pair.step();
  pair.cut = false;
  work.post(pair);
  pair.step();
  ASSERT_GT(pair.nic(1).counters.reliable_frames_received, 3u);
  pair[0].abandon();
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(pair.completions(0).front().opcode, Opcode::send);
  pair.completions(0).erase(pair.completions(0).begin());
  work.expect_no_effect(pair);
}

TEST(NicConnection, AnswersToAbandonedWork_areIgnored) {
  Pair pair(33);
  Bytes target(8), source(8, std::byte{7});
  ASSERT_TRUE(
      pair.post(0, request_of(Opcode::read, target, *pair.nic(1).regions.add(source))).ok());
  pair.step();
  pair[0].abandon();
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(pair.nic(1).counters.read_bytes_served, source.size());
  ASSERT_EQ(pair.completions(0).size(), 1u);
  EXPECT_EQ(pair.completions(0)[0].code, Code::aborted);
  EXPECT_EQ(target, Bytes(8));
}

/// Posts operations of all kinds at once, and compares the data with what must arrive.
class Traffic {
 public:
  Traffic(Pair& pair, int end, int requests) : pair_(pair), end_(end) {
    region_.resize(kRegion);
    meant_.resize(kRegion);
    served_ = random_bytes(pair.random(), kRegion);
    region_key_ = *pair.nic(1 - end).regions.add(region_);
    served_key_ = *pair.nic(1 - end).regions.add(served_);
    for (int i = 0; i < requests; ++i) post(static_cast<std::uint64_t>(i));
  }
  void verify() {
    std::vector<std::uint64_t> own;
    for (const Completion& one : pair_.completions(end_)) {
      if (one.opcode == Opcode::receive) continue;
      EXPECT_EQ(one.code, Code::ok);
      own.push_back(one.work_id);
    }
    EXPECT_EQ(own, signaled_) << "work must complete once and in the order posted";
    EXPECT_EQ(pair_.messages(1 - end_), sent_);
    std::vector<std::uint64_t> immediates;
    for (const Completion& one : pair_.completions(1 - end_)) {
      if (one.opcode == Opcode::receive && one.immediate != 0) immediates.push_back(one.immediate);
    }
    EXPECT_EQ(immediates, immediates_);
    EXPECT_TRUE(region_ == meant_);
    for (const auto& [offset, bytes] : reads_) {
      EXPECT_TRUE(std::equal(bytes->begin(), bytes->end(),
                             served_.begin() + static_cast<std::ptrdiff_t>(offset)));
    }
  }

 private:
  static constexpr std::size_t kRegion = 1 << 17;

  void post(std::uint64_t id) {
    Random& random = pair_.random();
    constexpr std::array kOpcodes{Opcode::send, Opcode::write, Opcode::write_immediate,
                                  Opcode::read};
    const Opcode opcode = kOpcodes[random.below(4)];
    const std::size_t most = opcode == Opcode::send ? 4096 : 30'000;
    const std::size_t size = 1 + random.below(random.below(most) + 1);
    const std::size_t offset = random.below(kRegion - size + 1);
    buffers_.push_back(std::make_unique<Bytes>(random_bytes(random, size)));
    Bytes& bytes = *buffers_.back();
    WorkRequest request =
        request_of(opcode, bytes, opcode == Opcode::read ? served_key_ : region_key_, offset, id);
    request.signaled = random.below(2) == 0;
    request.immediate = id + 1;
    if (opcode == Opcode::send) {
      sent_.push_back(bytes);
    } else if (opcode == Opcode::read) {
      reads_.emplace_back(offset, &bytes);
    } else {
      std::copy(bytes.begin(), bytes.end(), meant_.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    if (opcode == Opcode::write_immediate) immediates_.push_back(id + 1);
    if (request.signaled || opcode == Opcode::read) signaled_.push_back(id);
    ASSERT_TRUE(pair_.post(end_, request).ok());
  }

  Pair& pair_;
  int end_;
  Bytes region_, meant_, served_;
  MemoryKey region_key_, served_key_;
  std::vector<std::unique_ptr<Bytes>> buffers_;
  std::vector<Bytes> sent_;
  std::vector<std::uint64_t> immediates_, signaled_;
  std::vector<std::pair<std::size_t, Bytes*>> reads_;
};

class AnyNetwork : public testing::TestWithParam<Network> {};

TEST_P(AnyNetwork, AllWorkEndsInOrderWithTheRightBytes) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    NicSettings settings;
    settings.window_packets = seed % 3 == 0 ? 4 : 128;
    settings.expect_reordering = seed % 2 == 0;
    Pair pair(100 + seed, GetParam(), settings);
    pair.nic(0).peer_timeout = pair.nic(1).peer_timeout = Nanoseconds(100'000'000'000);
    Traffic there(pair, 0, 60);
    Traffic back(pair, 1, 60);
    ASSERT_TRUE(pair.run_until_quiet()) << "seed " << seed;
    there.verify();
    back.verify();
    // An end that expects reordering takes no gap for a loss. It retransmits only after a timeout,
    // which the ACKs of the other end must prevent.
    const bool reordered = GetParam().overtake_ppm > 0;
    if (GetParam().lose_ppm == 0 && (!reordered || settings.expect_reordering)) {
      EXPECT_EQ(pair.nic(0).counters.reliable_frames_resent, 0u);
    }
  }
}

TEST(NicConnection, PacketThatFillsAGap_isAcknowledgedAtOnce) {
  NicSettings settings;
  settings.expect_reordering = true;
  Pair pair(9, {}, settings);
  Bytes bytes(3 * settings.chunk_bytes);
  Bytes target(bytes.size());
  ASSERT_TRUE(
      pair.post(0, request_of(Opcode::write, bytes, *pair.nic(1).regions.add(target))).ok());
  std::array<NicPacket, 3> packets;
  for (NicPacket& packet : packets)
    ASSERT_TRUE(pair[0].next_packet(pair.nic(0), pair.now(), packet));
  EXPECT_FALSE(packets[1].acknowledge) << "this packet must not ask for an ACK";
  NicPacket ack;
  for (const auto& [arrives, acknowledged] : {std::pair{0u, 1u}, {2u, 1u}, {1u, 3u}}) {
    pair[1].on_packet(pair.nic(1), pair.now(), packets[arrives]);
    ASSERT_TRUE(pair[1].next_packet(pair.nic(1), pair.now(), ack)) << "packet " << arrives;
    EXPECT_EQ(ack.acknowledged, acknowledged) << "packet " << arrives;
  }
  pair[0].on_packet(pair.nic(0), pair.now(), ack);
  EXPECT_TRUE(pair[0].quiet());
}

std::uint64_t value_of(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

constexpr std::size_t kRandomAtomics = 100;

/// Posts random atomics on one word and compares their old values with the bitwise reference. With
/// an even seed, the NICs answer in big-endian byte order.
void run_random_atomics(std::uint64_t seed, const Network& network) {
  NicSettings settings;
  settings.big_endian_atomics = seed % 2 == 0;
  Capabilities capabilities;
  if (settings.big_endian_atomics)
    capabilities.bits = static_cast<std::uint32_t>(Capability::big_endian_atomics);
  Pair pair(200 + seed, network, settings);
  pair.nic(0).peer_timeout = pair.nic(1).peer_timeout = Nanoseconds(100'000'000'000);
  pair.nic(0).accept_big_endian_atomics = true;
  std::uint64_t word = 0, meant = 0;
  const MemoryKey key = *pair.nic(1).regions.add(std::as_writable_bytes(std::span(&word, 1)));
  std::vector<std::array<std::byte, kAtomicBytes>> answers(kRandomAtomics);
  std::vector<std::uint64_t> expected;
  for (std::uint64_t i = 0; i < kRandomAtomics; ++i) {
    const Opcode opcode = pair.random().below(2) == 0 ? Opcode::compare_swap : Opcode::fetch_add;
    WorkRequest request = request_of(opcode, answers[i], key, 0, i);
    request.atomic = test::draw_operands(meant, [&] { return pair.random().next(); });
    expected.push_back(meant);
    meant = test::value_by_bits(atomic_kind(opcode), meant, request.atomic);
    ASSERT_TRUE(pair.post(0, request).ok());
  }
  ASSERT_TRUE(pair.run_until_quiet()) << "seed " << seed;
  EXPECT_EQ(word, meant);
  std::vector<std::uint64_t> old;
  for (const auto& answer : answers) old.push_back(old_value(capabilities, answer));
  EXPECT_EQ(old, expected);
  EXPECT_EQ(pair.completions(0).size(), kRandomAtomics);
  EXPECT_EQ(pair.nic(1).counters.atomics_served, kRandomAtomics);
  EXPECT_EQ(pair.payloads().live(), 0u);
}

TEST_P(AnyNetwork, AtomicsAreExecutedOnceAndInOrder) {
  const std::uint64_t cases = test::count_wanted("TUTTI_TEST_DEVICE_ATOMICS", 2'000);
  std::uint64_t done = 0;
  for (std::uint64_t seed = 0; done < cases; ++seed, done += kRandomAtomics)
    ASSERT_NO_FATAL_FAILURE(run_random_atomics(seed, GetParam()));
  std::printf("[ figures  ] sim: %llu random atomics give the results of the pseudocode\n",
              static_cast<unsigned long long>(done));
}

TEST(NicConnection, Atomic_withABadKeyOrOffsetOrAlignment_isRefused) {
  Pair pair(7);
  alignas(8) std::array<std::byte, 24> memory{};
  const MemoryKey key = *pair.nic(1).regions.add(memory);
  const MemoryKey shifted = *pair.nic(1).regions.add(std::span(memory).subspan(4, 16));
  std::array<std::byte, 8> old{};
  for (const auto& [to, offset] : {std::pair{MemoryKey{key.key + 9}, 0}, {key, 24}, {shifted, 0}}) {
    ASSERT_TRUE(
        pair.post(0, request_of(Opcode::fetch_add, old, to, static_cast<std::uint64_t>(offset)))
            .ok());
  }
  ASSERT_TRUE(pair.run_until_quiet());
  ASSERT_EQ(pair.completions(0).size(), 3u);
  for (const Completion& one : pair.completions(0)) EXPECT_EQ(one.code, Code::invalid_argument);
  EXPECT_EQ(pair.post(0, request_of(Opcode::fetch_add, old, key, 4)).code(),
            Code::invalid_argument);
}

TEST(NicConnection, BigEndianAtomics_areRefused_unlessTheEndpointAcceptsThem) {
  NicSettings settings;
  settings.big_endian_atomics = true;
  EXPECT_TRUE(check(settings).ok());
  Pair pair(8, {}, settings);
  std::uint64_t word = 0x0102'0304'0506'0708;
  const MemoryKey key = *pair.nic(1).regions.add(std::as_writable_bytes(std::span(&word, 1)));
  std::array<std::byte, 8> old{};
  WorkRequest request = request_of(Opcode::fetch_add, old, key);
  request.atomic = AtomicOperands::fetch_add(1);
  EXPECT_EQ(pair.post(0, request).code(), Code::unsupported);
  pair.nic(0).accept_big_endian_atomics = true;
  ASSERT_TRUE(pair.post(0, request).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(value_of(old), 0x0807'0605'0403'0201);
  Capabilities capabilities;
  capabilities.bits = static_cast<std::uint32_t>(Capability::big_endian_atomics);
  EXPECT_EQ(old_value(capabilities, old), 0x0102'0304'0506'0708);
  EXPECT_EQ(old_value(Capabilities{}, old), 0x0807'0605'0403'0201);
  EXPECT_EQ(word, 0x0102'0304'0506'0709);
  settings.connections = ConnectionKind::software;
  EXPECT_EQ(check(settings).code(), Code::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(NicConnection, AnyNetwork,
                         testing::Values(Network{}, Network{.lose_ppm = 20'000},
                                         Network{.lose_ppm = 300'000},
                                         Network{.duplicate_ppm = 300'000},
                                         Network{.overtake_ppm = 300'000},
                                         Network{100'000, 100'000, 200'000}));

}  // namespace
}  // namespace tutti::device::sim
