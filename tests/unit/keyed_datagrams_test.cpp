// Tests two queue pairs of one group with different integrity words: neither accepts a datagram of
// the other, although the sender itself would accept it. For UC, see uc_queue_pair_test.cpp.
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

  std::unique_ptr<IpMulticastQueuePair> open(std::uint32_t rank, const wire::TagKeys& word) {
    const GroupSettings settings{.rank = rank_of(rank),
                                 .size = 2,
                                 .communicator = kCommunicator,
                                 .multicast = Multicast::ud,
                                 .shared_host = true,
                                 .send_buffer_bytes = 1 << 20,
                                 .receive_buffer_bytes = 1 << 20};
    auto pair = IpMulticastQueuePair::open(settings, interface_, group_, 0);
    EXPECT_TRUE(pair.ok()) << pair.status().to_string();
    if (!pair) return nullptr;
    (*pair)->set_tag_keys(word);
    (*pair)->set_members(std::make_shared<const std::vector<SocketAddress>>(2, interface_.address));
    return std::move(*pair);
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
      pollfd waits{.fd = receiver->receive_descriptor(), .events = POLLIN, .revents = 0};
      if (::poll(&waits, 1, kPatienceMs) == 0) {
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

TEST_F(KeyedDatagrams, DatagramsOfAnotherKey_areRefused) {
  const Outcome outcome = exchange(keyed(2), keyed(1));
  EXPECT_EQ(outcome.counted, 0u);
  EXPECT_EQ(outcome.refused, kChunks);
}

}  // namespace
}  // namespace tutti::device::ip
