// Tests messages that a matcher accepts. The reliable channel stores their bytes at the places that
// the matcher returns and reports each message once and in order, even if the network loses,
// duplicates or reorders frames.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "rc_harness.hpp"

namespace tutti::device::rc {
namespace {

using namespace test;  // NOLINT: namespace `test` holds only the harness of these tests
using std::chrono::microseconds;

/// Kinds of messages; the first byte of a message is its kind.
constexpr std::byte kDelivered{0};
constexpr std::byte kStored{1};
constexpr std::byte kTooLong{2};  ///< the matcher supplies only half the memory that it needs

/// Matches messages of every kind but kDelivered, and stores them without their first byte.
class Matcher final : public MessageMatcher {
 public:
  std::optional<MessagePlace> match(Rank, std::span<const std::byte> first,
                                    std::size_t bytes) override {
    ++asked;
    if (first[0] == kDelivered) return std::nullopt;
    places.emplace_back(first[0] == kTooLong ? bytes / 2 : bytes - 1, std::byte{0xee});
    return MessagePlace{.token = 100 + places.size(), .skip = 1, .memory = places.back()};
  }

  std::size_t asked = 0;
  std::vector<Bytes> places;
};

TEST(RcMatching, Messages_overLinksWithFaults_areStoredOrDeliveredInOrder) {
  constexpr int kMessages = 300;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Pair pair(seed, faults_of(seed, 0.2));
    Matcher matcher;
    pair[1].matcher = &matcher;
    std::vector<Bytes> sent;
    for (int i = 0; i < kMessages; ++i) {
      // Some messages fit into one frame, and others need many frames.
      const std::size_t most = i % 4 == 0 ? RcConfig().max_message_bytes : 200;
      sent.push_back(random_bytes(pair.random(), 2 + pair.random()() % (most - 1)));
      sent.back()[0] = static_cast<std::byte>(pair.random()() % 3);
    }
    for (Bytes& message : sent) ASSERT_TRUE(pair.post(0, send_of(message)).ok());
    ASSERT_TRUE(pair.run_until_quiet());
    EXPECT_EQ(matcher.asked, sent.size());
    const auto& arrived = pair[1].completions;
    ASSERT_EQ(arrived.size(), sent.size());
    std::size_t stored = 0;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      if (sent[i][0] == kDelivered) {
        EXPECT_EQ(arrived[i].completion.opcode, Opcode::receive);
        EXPECT_EQ(arrived[i].payload, sent[i]) << "message " << i;
        continue;
      }
      const Bytes& place = matcher.places[stored++];
      EXPECT_EQ(arrived[i].completion.opcode, Opcode::matched);
      EXPECT_EQ(arrived[i].completion.work_id, 100 + stored) << "message " << i;
      EXPECT_TRUE(std::equal(place.begin(), place.end(), sent[i].begin() + 1)) << "message " << i;
    }
    EXPECT_EQ(stored, matcher.places.size());
  }
}

TEST(RcMatching, BufferOfAPartlyReceivedMessage_afterAbandon_isNotWritten) {
  Pair pair(1);
  Matcher matcher;
  pair[1].matcher = &matcher;
  Bytes message = random_bytes(pair.random(), RcConfig().max_message_bytes);
  message[0] = kStored;
  int frames = 0;
  pair.filter = [&](std::size_t from, const Bytes&) { return from == 1 || ++frames == 1; };
  ASSERT_TRUE(pair.post(0, send_of(message)).ok());
  ASSERT_TRUE(pair.run([&] { return matcher.asked == 1; }));
  const Bytes before = matcher.places[0];
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 100, message.begin() + 1));
  EXPECT_EQ(before.back(), std::byte{0xee});
  pair.channel(1).abandon();
  pair.filter = nullptr;
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(matcher.places[0], before);
  EXPECT_EQ(pair[1].of(Opcode::matched).size(), 1u) << "the rest of the message is dropped";
}

}  // namespace
}  // namespace tutti::device::rc
