// Tests the datagrams that carry the frames of reliable connections.
#include "device/rc/frame_datagrams.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace tutti::device::rc {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint16_t kCommunicator = 7;

/// A frame of kind `write` with `data` behind its header.
OutgoingFrame frame_of(const Bytes& data) {
  OutgoingFrame frame;
  RcFrame out;
  out.kind = RcKind::write;
  out.remaining = data.size();
  frame.header_bytes = encode(out, frame.header.data());
  frame.payload = data;
  return frame;
}

Bytes datagram_of(FrameDatagrams& from, Rank to, const OutgoingFrame& frame) {
  Bytes bytes(FrameDatagrams::kMaxHeadBytes);
  const auto datagram = from.encode(to, frame, bytes.data());
  bytes.resize(datagram.head_bytes);
  bytes.insert(bytes.end(), datagram.rest.begin(), datagram.rest.end());
  return bytes;
}

constexpr auto kAnyHost = [](Rank) { return true; };

class FrameDatagramsTest : public testing::TestWithParam<std::size_t> {
 protected:
  Bytes data_ = Bytes(GetParam(), std::byte{0x3c});
  FrameDatagrams sender_{rank_of(0), 3, kCommunicator};
  FrameDatagrams receiver_{rank_of(1), 3, kCommunicator};
  EndpointCounters counters_;
};

TEST_P(FrameDatagramsTest, ReceiverGetsTheFrameAndItsSource) {
  const OutgoingFrame frame = frame_of(data_);
  const Bytes bytes = datagram_of(sender_, rank_of(1), frame);
  EXPECT_EQ(bytes.size(), wire::kHeaderBytes + frame.size());
  const auto received = receiver_.decode(bytes, kAnyHost, counters_);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->source, rank_of(0));
  const auto decoded = decode_rc(received->frame);
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(std::equal(data_.begin(), data_.end(), decoded->payload.begin()));
  EXPECT_EQ(counters_.rejected_foreign + counters_.rejected_integrity, 0u);
}

TEST_P(FrameDatagramsTest, DamageInAnyByteIsRejected) {
  const Bytes bytes = datagram_of(sender_, rank_of(1), frame_of(data_));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    Bytes damaged = bytes;
    damaged[at] ^= std::byte{1};
    EXPECT_FALSE(receiver_.decode(damaged, kAnyHost, counters_)) << at;
  }
  EXPECT_EQ(counters_.rejected_foreign + counters_.rejected_integrity + counters_.rejected_replayed,
            bytes.size());
}

TEST_P(FrameDatagramsTest, DatagramFromAnotherHost_isForeign_andItsCounterStaysUsable) {
  const Bytes bytes = datagram_of(sender_, rank_of(1), frame_of(data_));
  EXPECT_FALSE(receiver_.decode(
      bytes, [](Rank source) { return source != rank_of(0); }, counters_));
  EXPECT_EQ(counters_.rejected_foreign, 1u);
  EXPECT_TRUE(receiver_.decode(bytes, kAnyHost, counters_));
}

TEST_P(FrameDatagramsTest, DatagramOfAnotherVersion_isForeign) {
  Bytes bytes = datagram_of(sender_, rank_of(1), frame_of(data_));
  bytes[0] ^= std::byte{0x10};  // the upper half of the first byte is the version
  EXPECT_FALSE(receiver_.decode(bytes, kAnyHost, counters_));
  EXPECT_EQ(counters_.rejected_foreign, 1u);
}

TEST_P(FrameDatagramsTest, DatagramThatIsRepeated_isRejected) {
  const Bytes bytes = datagram_of(sender_, rank_of(1), frame_of(data_));
  EXPECT_TRUE(receiver_.decode(bytes, kAnyHost, counters_));
  EXPECT_FALSE(receiver_.decode(bytes, kAnyHost, counters_));
  EXPECT_EQ(counters_.rejected_replayed, 1u);
}

TEST_P(FrameDatagramsTest, TwoDatagramsOfOneFrame_haveDifferentHeaders) {
  const OutgoingFrame frame = frame_of(data_);
  const Bytes first = datagram_of(sender_, rank_of(1), frame);
  const Bytes second = datagram_of(sender_, rank_of(1), frame);
  EXPECT_NE(std::memcmp(first.data(), second.data(), wire::kTagOffset), 0);
}

TEST_P(FrameDatagramsTest, DatagramForAnotherRankOrCommunicator_isForeign) {
  const OutgoingFrame frame = frame_of(data_);
  EXPECT_FALSE(receiver_.decode(datagram_of(sender_, rank_of(2), frame), kAnyHost, counters_));
  FrameDatagrams elsewhere(rank_of(0), 3, kCommunicator + 1);
  EXPECT_FALSE(receiver_.decode(datagram_of(elsewhere, rank_of(1), frame), kAnyHost, counters_));
  EXPECT_FALSE(sender_.decode(datagram_of(sender_, rank_of(0), frame), kAnyHost, counters_))
      << "a rank sends nothing to itself";
  EXPECT_EQ(counters_.rejected_foreign, 3u);
}

// Payload sizes of two short frames, and of a long frame, whose tag is computed over two parts.
INSTANTIATE_TEST_SUITE_P(Lengths, FrameDatagramsTest, testing::Values(0, 40, 1000));

}  // namespace
}  // namespace tutti::device::rc
