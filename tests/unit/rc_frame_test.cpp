// Tests the frames of reliable connections: valid frames decode as encoded, and contradictory ones
// are refused.
#include "device/rc/rc_frame.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace tutti::device::rc {
namespace {

using Bytes = std::vector<std::byte>;

RcFrame sample(RcKind kind) {
  RcFrame frame;
  frame.kind = kind;
  frame.source_incarnation = 0x11223344;
  frame.destination_incarnation = 0x55667788;
  frame.sequence = kind == RcKind::ack ? 0 : 0xfffffff0;
  frame.acknowledged = 77;
  return frame;
}

Bytes bytes_of(const RcFrame& frame, std::size_t data_bytes = 0) {
  Bytes bytes(kRcHeaderMax + data_bytes);
  bytes.resize(encode(frame, bytes.data()) + data_bytes, std::byte{0xaa});
  return bytes;
}

void expect_same(const RcFrame& a, const RcFrame& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.acknowledge_now, b.acknowledge_now);
  EXPECT_EQ(a.fresh, b.fresh);
  EXPECT_EQ(a.resent, b.resent);
  EXPECT_EQ(a.answers_resent, b.answers_resent);
  EXPECT_EQ(a.answers_question, b.answers_question);
  EXPECT_EQ(a.gave_up, b.gave_up);
  EXPECT_EQ(a.alone, b.alone);
  EXPECT_EQ(a.continues, b.continues);
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.source_incarnation, b.source_incarnation);
  EXPECT_EQ(a.destination_incarnation, b.destination_incarnation);
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.acknowledged, b.acknowledged);
  EXPECT_EQ(a.operation, b.operation);
  EXPECT_EQ(a.message_bytes, b.message_bytes);
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.offset, b.offset);
  EXPECT_EQ(a.remaining, b.remaining);
  EXPECT_EQ(a.immediate, b.immediate);
  EXPECT_EQ(a.atomic, b.atomic);
}

TEST(RcFrame, FrameOfEveryKind_decodesAsEncoded) {
  RcFrame send = sample(RcKind::send);
  send.acknowledge_now = true;
  send.fresh = true;
  send.message_bytes = 5000;
  send.offset = 1400;
  RcFrame write = sample(RcKind::write);
  write.resent = true;
  write.answers_resent = true;
  write.answers_question = true;
  send.gave_up = true;
  send.alone = true;
  write.operation = 9;
  write.key = 0x1'0000'0002;
  write.offset = 1ull << 40;
  write.remaining = 1ull << 33;
  RcFrame immediate = write;
  immediate.kind = RcKind::write_immediate;
  immediate.continues = true;
  immediate.remaining = 100;
  immediate.immediate = 0xdeadbeef'12345678;
  RcFrame response = sample(RcKind::read_response);
  response.operation = 4;
  response.offset = 123456789012;
  RcFrame refused = sample(RcKind::refused);
  refused.operation = 31;
  refused.count = static_cast<std::uint16_t>(Code::invalid_argument);
  RcFrame atomic = sample(RcKind::atomic_request);
  atomic.count = static_cast<std::uint16_t>(AtomicKind::fetch_add);
  atomic.operation = 12;
  atomic.key = 0x3'0000'0004;
  atomic.offset = 64;
  atomic.atomic = {1, 2, 3, 4};
  RcFrame answer = sample(RcKind::atomic_answer);
  answer.operation = 12;
  answer.immediate = 0x1122'3344'5566'7788;
  for (const RcFrame& frame :
       {send, write, immediate, response, refused, atomic, answer, sample(RcKind::empty)}) {
    const bool has_data = frame.kind != RcKind::refused && frame.kind < RcKind::atomic_request;
    const Bytes bytes = bytes_of(frame, has_data ? 100 : 0);
    const auto read = decode_rc(bytes);
    ASSERT_TRUE(read) << to_string(frame);
    expect_same(*read, frame);
    EXPECT_EQ(read->payload.size(), has_data ? 100u : 0u);
  }
  EXPECT_EQ(refusal_code(*decode_rc(bytes_of(refused))), Code::invalid_argument);
}

TEST(RcFrame, WordsAndRangesOfAFrame_decodeAsEncoded) {
  RcFrame ack = sample(RcKind::ack);
  ack.count = 2;
  Bytes bytes = bytes_of(ack, 2 * kRcWordBytes);
  encode_word(0x8000'0000'0000'0001, bytes.data() + kRcCommonBytes);
  encode_word(42, bytes.data() + kRcCommonBytes + kRcWordBytes);
  const auto read = decode_rc(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(word_at(*read, 0), 0x8000'0000'0000'0001);
  EXPECT_EQ(word_at(*read, 1), 42u);

  RcFrame request = sample(RcKind::read_request);
  request.count = kRcMaxReadRanges;
  bytes = bytes_of(request, kRcMaxReadRanges * kRcReadRangeBytes);
  for (std::uint32_t i = 0; i < kRcMaxReadRanges; ++i) {
    encode_range({i, i + 100, i + 200, i + 300}, &bytes[kRcCommonBytes + i * kRcReadRangeBytes]);
  }
  const auto ranges = decode_rc(bytes);
  ASSERT_TRUE(ranges);
  for (std::uint32_t i = 0; i < kRcMaxReadRanges; ++i) {
    EXPECT_EQ(range_at(*ranges, i), (RcReadRange{i, i + 100, i + 200, i + 300}));
  }
}

TEST(RcFrame, EncodedFrame_hasTheDocumentedLayout) {
  RcFrame write = sample(RcKind::write);
  write.acknowledge_now = true;
  write.operation = 0x01020304;
  write.remaining = 1;
  const Bytes bytes = bytes_of(write, 1);
  EXPECT_EQ(bytes[0], std::byte{4});
  EXPECT_EQ(bytes[1], std::byte{1});
  EXPECT_EQ(bytes[4], std::byte{0x44});   // little-endian source incarnation
  EXPECT_EQ(bytes[12], std::byte{0xf0});  // sequence
  EXPECT_EQ(bytes[16], std::byte{77});    // acknowledged
  EXPECT_EQ(bytes[20], std::byte{0x04});  // operation
  EXPECT_EQ(bytes.size(), kRcWriteHeaderBytes + 1);
}

TEST(RcFrame, EveryTruncatedFrame_isRefused) {
  RcFrame write = sample(RcKind::write_immediate);
  write.remaining = 10;
  const Bytes bytes = bytes_of(write, 10);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_rc(std::span(bytes).first(size))) << size;
  }
}

TEST(RcFrame, ContradictoryFramesAreRefused) {
  const auto refuses = [](RcFrame frame, std::size_t data_bytes) {
    return !decode_rc(bytes_of(frame, data_bytes));
  };
  RcFrame send = sample(RcKind::send);
  send.message_bytes = 99;
  EXPECT_TRUE(refuses(send, 100)) << "data beyond the message";
  EXPECT_TRUE(refuses(send, 0)) << "no data although the message has some";
  EXPECT_FALSE(refuses(send, 99));
  RcFrame write = sample(RcKind::write);
  write.remaining = 99;
  EXPECT_TRUE(refuses(write, 100)) << "data beyond the operation";
  write.offset = UINT64_MAX - 50;
  EXPECT_TRUE(refuses(write, 10)) << "offset wraps";
  RcFrame immediate = sample(RcKind::write_immediate);
  immediate.remaining = 11;
  EXPECT_TRUE(refuses(immediate, 10)) << "the immediate is not on the last frame";
  RcFrame ack = sample(RcKind::ack);
  ack.count = 1;
  EXPECT_TRUE(refuses(ack, 0)) << "words are missing";
  ack.count = kRcMaxWords + 1;
  EXPECT_TRUE(refuses(ack, (kRcMaxWords + 1) * kRcWordBytes)) << "too many words";
  ack.count = 0;
  ack.sequence = 1;
  EXPECT_TRUE(refuses(ack, 0)) << "an ack has no sequence";
  RcFrame request = sample(RcKind::read_request);
  EXPECT_TRUE(refuses(request, 0)) << "no range";
  RcFrame refused = sample(RcKind::refused);
  EXPECT_TRUE(refuses(refused, 0)) << "refused with ok";
  refused.count = 200;
  EXPECT_TRUE(refuses(refused, 0)) << "no such code";
  EXPECT_TRUE(refuses(sample(static_cast<RcKind>(0)), 0));
  EXPECT_TRUE(refuses(sample(static_cast<RcKind>(11)), 0));
  RcFrame atomic = sample(RcKind::atomic_request);
  EXPECT_TRUE(refuses(atomic, 8));
  atomic.count = 2;
  EXPECT_TRUE(refuses(atomic, 0));
  EXPECT_TRUE(refuses(sample(RcKind::atomic_answer), 1));
  Bytes flags = bytes_of(sample(RcKind::empty));
  flags[1] = std::byte{128};
  EXPECT_FALSE(decode_rc(flags)) << "only a WRITE continues";
}

TEST(RcFrame, TextOfAFrame_hasTheRelevantFields) {
  RcFrame write = sample(RcKind::write);
  write.operation = 3;
  write.offset = 4096;
  write.remaining = 100;
  const std::string text = to_string(write);
  EXPECT_NE(text.find("write seq 4294967280 ack 77"), std::string::npos) << text;
  EXPECT_NE(text.find("offset 4096 remaining 100"), std::string::npos) << text;
}

}  // namespace
}  // namespace tutti::device::rc
