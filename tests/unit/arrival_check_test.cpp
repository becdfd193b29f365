// Tests which arriving datagrams are accepted. Some datagrams are forged or repeated, and some have
// a counter that belongs to an earlier or later tag key.
#include "wire/arrival_check.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "wire/header.hpp"

namespace tutti::wire {
namespace {

using Verdict = ArrivalCheck::Verdict;
using Datagram = std::vector<std::byte>;

constexpr std::uint16_t kCommunicator = 9;
constexpr std::uint64_t kGeneration = std::uint64_t{1} << TagKeys::kGenerationBits;

TagKeys keys_of(std::uint8_t secret) {
  return *TagKeys::keyed(std::vector<std::byte>(32, std::byte{secret}), kCommunicator);
}

class ArrivalCheckTest : public testing::Test {
 protected:
  void SetUp() override { check_.use(keys_of(1)); }

  Datagram made(std::uint32_t source, std::uint64_t counter) {
    Datagram datagram(kHeaderBytes + 100, std::byte{3});
    encode({.kind = PacketKind::chunk,
            .communicator = kCommunicator,
            .source = rank_of(source),
            .counter = counter},
           datagram.data());
    keys_.seal(datagram.data(), payload_of(datagram));
    return datagram;
  }
  Verdict judge(const Datagram& datagram) {
    const auto header = decode(datagram);
    return check_.judge(header->source, header->counter, header->tag, [&](const Integrity& word) {
      ++computed_;
      return word.tag(datagram.data(), payload_of(datagram));
    });
  }
  static std::span<const std::byte> payload_of(const Datagram& datagram) {
    return std::span(datagram).subspan(kHeaderBytes);
  }

  TagKeys keys_ = keys_of(1);
  ArrivalCheck check_{4};
  int computed_ = 0;  ///< number of integrity words that the check computed
};

TEST_F(ArrivalCheckTest, RepeatedDatagram_isJudgedReplayed_andNoTagIsComputed) {
  const Datagram datagram = made(2, 1);
  EXPECT_EQ(judge(datagram), Verdict::fresh);
  EXPECT_EQ(judge(datagram), Verdict::replayed);
  EXPECT_EQ(computed_, 1);
}

TEST_F(ArrivalCheckTest, ReplayWindowOfOneRank_doesNotAffectAnotherRank) {
  EXPECT_EQ(judge(made(1, 5000)), Verdict::fresh);
  EXPECT_EQ(judge(made(2, 1)), Verdict::fresh);
  EXPECT_EQ(judge(made(1, 1)), Verdict::replayed);
}

TEST_F(ArrivalCheckTest, ForgedDatagram_doesNotMoveTheReplayWindow) {
  Datagram forged = made(1, 100'000);
  forged.back() ^= std::byte{1};
  EXPECT_EQ(judge(forged), Verdict::damaged);
  EXPECT_EQ(judge(made(1, 1)), Verdict::fresh);
  EXPECT_EQ(judge(made(1, 100'000)), Verdict::fresh);
}

TEST_F(ArrivalCheckTest, DatagramWithAnAlteredCounter_isJudgedDamaged) {
  Datagram datagram = made(1, 7);
  datagram[kCounterOffset] ^= std::byte{8};
  EXPECT_EQ(judge(datagram), Verdict::damaged);
}

TEST_F(ArrivalCheckTest, Datagrams_aroundAKeyChange_areCheckedWithTheirOwnKey) {
  EXPECT_EQ(judge(made(1, kGeneration - 2)), Verdict::fresh);
  EXPECT_EQ(judge(made(1, kGeneration)), Verdict::fresh);
  EXPECT_EQ(judge(made(1, kGeneration - 1)), Verdict::fresh)
      << "a late datagram of the previous generation must be accepted";
  EXPECT_EQ(judge(made(2, 1)), Verdict::fresh)
      << "the generation of rank 1 must not apply to rank 2";
  EXPECT_EQ(judge(made(1, 2 * kGeneration)), Verdict::fresh);
  EXPECT_EQ(judge(made(1, kGeneration + 1)), Verdict::replayed);
}

TEST_F(ArrivalCheckTest, DatagramWithTheTagOfAnotherKeyGeneration_isJudgedDamaged) {
  Datagram datagram = made(1, kGeneration + 1);
  encode_tag(keys_.of(1)->tag(datagram.data(), payload_of(datagram)), datagram.data());
  EXPECT_EQ(judge(datagram), Verdict::damaged);
}

TEST_F(ArrivalCheckTest, DatagramOfADistantKeyGeneration_isJudgedDamaged_andNoTagIsComputed) {
  EXPECT_EQ(judge(made(1, 2 * kGeneration)), Verdict::damaged);
  EXPECT_EQ(computed_, 0);
  EXPECT_EQ(judge(made(1, kGeneration)), Verdict::fresh);
  EXPECT_EQ(judge(made(1, 2 * kGeneration)), Verdict::fresh);
}

TEST(TagKeys, KeyGenerationsAndCommunicators_haveDifferentKeys) {
  const std::array<std::byte, kHeaderBytes> header{};
  TagKeys keys = keys_of(1);
  TagKeys other = *TagKeys::keyed(std::vector<std::byte>(32, std::byte{1}), kCommunicator + 1);
  const std::uint64_t first = keys.of(0)->tag(header.data(), {});
  EXPECT_NE(keys.of(kGeneration)->tag(header.data(), {}), first);
  EXPECT_NE(other.of(0)->tag(header.data(), {}), first);
  EXPECT_EQ(keys.of(kGeneration - 1)->tag(header.data(), {}), first);
  EXPECT_EQ(keys.kind(), IntegrityKind::keyed_tag);
}

TEST(TagKeys, CrcUsedWithoutAKey_isTheSameInEveryKeyGeneration) {
  TagKeys keys;
  EXPECT_EQ(keys.of(1), keys.of(5 * kGeneration));
  EXPECT_EQ(keys.kind(), IntegrityKind::crc32c);
}

}  // namespace
}  // namespace tutti::wire
