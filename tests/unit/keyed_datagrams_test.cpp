// Tests two queue pairs of one group. With different integrity words, neither accepts a datagram of
// the other, although the sender itself would accept it. With equal words, probes and frames are
// accepted only where the endpoint takes them. For UC, see uc_queue_pair_test.cpp.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "base/random.hpp"
#include "device/ip/multicast/group.hpp"
#include "device/ip/multicast/multicast_queue_pair.hpp"

namespace tutti::device::ip {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint16_t kCommunicator = 3;
constexpr std::uint32_t kChunkBytes = 256;
constexpr std::uint32_t kChunks = 4;
constexpr int kPatienceMs = 10'000;

Bytes pattern(std::size_t size, std::uint64_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(draw(seed, i));
  return bytes;
}

wire::TagKeys keyed(std::uint64_t secret) {
  return *wire::TagKeys::keyed(pattern(32, secret), kCommunicator);
}

class KeyedDatagrams : public testing::Test {
 protected:
  void SetUp() override {
    auto chosen = choose_interface("", true, AF_INET);
    ASSERT_TRUE(chosen.ok()) << chosen.status().to_string();
    interface_ = *chosen;
    GroupSeed seed{};
    const Bytes bytes = pattern(seed.size(), static_cast<std::uint64_t>(::getpid()));
    std::copy(bytes.begin(), bytes.end(), seed.begin());
    group_ = group_address(seed, 0, AF_INET, interface_.index);
  }

  std::unique_ptr<IpMulticastQueuePair> open(std::uint32_t rank, const wire::TagKeys& word,
                                             std::uint32_t subgroup = 0, bool slots = false) {
    const GroupSettings settings{.rank = rank_of(rank),
                                 .size = 2,
                                 .communicator = kCommunicator,
                                 .multicast = Multicast::ud,
                                 .shared_host = true,
                                 .slots = slots,
                                 .send_buffer_bytes = 1 << 20,
                                 .receive_buffer_bytes = 1 << 20};
    auto pair = IpMulticastQueuePair::open(settings, interface_, group_, subgroup);
    EXPECT_TRUE(pair.ok()) << pair.status().to_string();
    if (!pair) return nullptr;
    (*pair)->set_tag_keys(word);
    (*pair)->set_members(std::make_shared<const std::vector<SocketAddress>>(2, interface_.address));
    return std::move(*pair);
  }

  /// Waits for a datagram; false if none arrives.
  static bool arrives(const IpMulticastQueuePair& receiver) {
    pollfd waits{.fd = receiver.receive_descriptor(), .events = POLLIN, .revents = 0};
    return ::poll(&waits, 1, kPatienceMs) > 0;
  }

  /// The number of chunks from rank 1 that rank 0 accepted, and the number of datagrams that rank 0
  /// refused because of their integrity word.
  struct Outcome {
    std::uint32_t counted = 0;
    std::uint64_t refused = 0;
  };
  Outcome exchange(const wire::TagKeys& senders, const wire::TagKeys& receivers) {
    const auto receiver = open(0, receivers);
    const auto sender = open(1, senders);
    if (!receiver || !sender) return {};
    const Bytes data = pattern(kChunks * kChunkBytes, 5);
    const auto accepted = sender->post({.epoch = 7, .data = data, .chunk_bytes = kChunkBytes});
    EXPECT_TRUE(accepted.ok() && *accepted == kChunks);
    Outcome outcome;
    Bytes place(kChunkBytes);
    while (outcome.counted + outcome.refused < kChunks) {
      std::array<ReceivedChunk, 8> chunks;
      const std::size_t count = receiver->poll(chunks);
      for (std::size_t i = 0; i < count; ++i) {
        if (receiver->copy_and_verify(chunks[i], place.data())) ++outcome.counted;
      }
      receiver->release();
      EndpointCounters counters;
      receiver->add_to(counters);
      outcome.refused = counters.rejected_integrity;
      if (count > 0) continue;
      if (!arrives(*receiver)) {
        ADD_FAILURE() << "only " << outcome.counted + outcome.refused << " chunks arrived";
        break;
      }
    }
    return outcome;
  }

 private:
  Interface interface_;
  SocketAddress group_;
};

TEST_F(KeyedDatagrams, DatagramsOfTheSameKey_areAccepted) {
  const Outcome outcome = exchange(keyed(1), keyed(1));
  EXPECT_EQ(outcome.counted, kChunks);
  EXPECT_EQ(outcome.refused, 0u);
}

TEST_F(KeyedDatagrams, DatagramsWithACrcInsteadOfAKeyedTag_areRefused) {
  const Outcome outcome = exchange(wire::TagKeys(), keyed(1));
  EXPECT_EQ(outcome.counted, 0u);
  EXPECT_EQ(outcome.refused, kChunks);
}

// Arrivals that the endpoint never takes would fill the queue of the pair, and wake a receive
// worker again and again.
TEST_F(KeyedDatagrams, ProbesAndFrames_areKeptOnlyInQueuePairsFromWhichTheEndpointTakesThem) {
  struct Case {
    std::uint32_t subgroup;
    bool slots;
    std::uint64_t probes, frames;
  };
  for (const Case& one : {Case{0, false, 1, 1}, Case{1, false, 1, 0}, Case{1, true, 0, 0}}) {
    const auto receiver = open(0, keyed(1), one.subgroup, one.slots);
    const auto sender = open(1, keyed(1), one.subgroup, one.slots);
    ASSERT_TRUE(receiver && sender);
    ASSERT_TRUE(sender->post_probe(0, 0).ok());
    sender->post_frame(Rank{0}, pattern(40, 1));
    std::uint64_t probes = 0, frames = 0;
    EndpointCounters counters;
    while (probes + frames + counters.rejected_foreign < 2) {
      ASSERT_TRUE(arrives(*receiver)) << probes << " probes and " << frames << " frames arrived";
      std::array<ReceivedChunk, 8> chunks;
      EXPECT_EQ(receiver->poll(chunks), 0u);
      probes += receiver->take_probes().size();
      frames += receiver->frames().take().size();
      counters = {};
      receiver->add_to(counters);
    }
    EXPECT_EQ(probes, one.probes) << "subgroup " << one.subgroup;
    EXPECT_EQ(frames, one.frames) << "subgroup " << one.subgroup;
    EXPECT_EQ(counters.rejected_foreign, 2 - one.probes - one.frames);
    EXPECT_FALSE(receiver->arrivals_wait());
  }
}

TEST_F(KeyedDatagrams, DatagramsOfAnotherKey_areRefused) {
  const Outcome outcome = exchange(keyed(2), keyed(1));
  EXPECT_EQ(outcome.counted, 0u);
  EXPECT_EQ(outcome.refused, kChunks);
}

}  // namespace
}  // namespace tutti::device::ip
