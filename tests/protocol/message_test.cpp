#include "protocol/codec/message.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/random.hpp"

namespace tutti::protocol {
namespace {

using Bytes = std::array<std::byte, kMaxMessageBytes>;

Message sample(std::uint32_t ranges) {
  Message message;
  message.kind = MessageKind::fetch_request;
  message.epoch = 0xfedc'ba98u;
  message.argument = 0x0123'4567'89ab'cdefu;
  for (std::uint32_t i = 0; i < ranges; ++i) EXPECT_TRUE(message.add({i * 10, i * 10 + 1 + i}));
  return message;
}

TEST(Message, MessageWithAnyNumberOfRanges_decodesAsEncoded) {
  for (std::uint32_t ranges = 0; ranges <= kMaxRanges; ++ranges) {
    Bytes bytes;
    const Message message = sample(ranges);
    const std::size_t size = encode(message, bytes.data());
    ASSERT_EQ(size, 16 + ranges * 8);
    const auto back = decode(std::span(bytes).first(size));
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->kind, message.kind);
    EXPECT_EQ(back->epoch, message.epoch);
    EXPECT_EQ(back->argument, message.argument);
    ASSERT_EQ(back->range_count, ranges);
    for (std::uint32_t i = 0; i < ranges; ++i) EXPECT_EQ(back->ranges[i], message.ranges[i]);
  }
}

TEST(Message, ExcessRangesAreRefused) {
  Message message = sample(kMaxRanges);
  EXPECT_FALSE(message.add({1, 2}));
  EXPECT_EQ(message.range_count, kMaxRanges);
}

TEST(Message, EveryMessageKind_hasAName_andDecodesAsEncoded) {
  for (std::uint8_t kind = 1; kind <= static_cast<std::uint8_t>(MessageKind::last_kind); ++kind) {
    Message message;
    message.kind = static_cast<MessageKind>(kind);
    Bytes bytes;
    const auto back = decode(std::span(bytes).first(encode(message, bytes.data())));
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->kind, message.kind);
    EXPECT_GT(std::string(to_string(back->kind)).size(), 3u);
  }
}

TEST(Message, WrongLengthsAreRefused) {
  Bytes bytes;
  const std::size_t size = encode(sample(3), bytes.data());
  for (std::size_t n = 0; n <= bytes.size(); ++n) {
    EXPECT_EQ(decode(std::span(bytes).first(n)).has_value(), n == size) << n;
  }
}

TEST(Message, UnknownKindsAndBadRangesAreRefused) {
  Bytes bytes;
  const std::size_t size = encode(sample(2), bytes.data());
  const auto with = [&](std::size_t at, std::uint8_t value) {
    Bytes changed = bytes;
    changed[at] = static_cast<std::byte>(value);
    return decode(std::span(changed).first(size)).has_value();
  };
  EXPECT_TRUE(with(0, 1));
  EXPECT_FALSE(with(0, 0));
  EXPECT_FALSE(with(0, static_cast<std::uint8_t>(MessageKind::last_kind) + 1));
  EXPECT_FALSE(with(0, 255));
  EXPECT_FALSE(with(2, 3));
  EXPECT_FALSE(with(3, 255));
  EXPECT_FALSE(with(20, 0)) << "a range that ends where it begins";
  EXPECT_FALSE(with(16, 200)) << "a range that ends before it begins";
}

TEST(Message, RandomBytesAreRefusedOrEncodeToTheSameBytes) {
  Random random(3);
  int read = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes;
    for (std::byte& one : bytes) one = static_cast<std::byte>(random.next());
    const std::size_t ranges = random.below(kMaxRanges + 1);
    bytes[0] = static_cast<std::byte>(random.below(16));
    bytes[1] = bytes[3] = std::byte{0};
    bytes[2] = static_cast<std::byte>(ranges);
    const auto input = std::span(bytes).first(16 + ranges * 8);
    const auto message = decode(input);
    if (!message) continue;
    ++read;
    Bytes again;
    ASSERT_EQ(encode(*message, again.data()), input.size());
    ASSERT_TRUE(std::equal(input.begin(), input.end(), again.begin()));
  }
  EXPECT_GT(read, 100);
}

TEST(Outbox, Messages_keepTheirOrder_andClearRemovesThemAll) {
  Outbox outbox;
  outbox.send(rank_of(1), sample(5));
  outbox.send(rank_of(2), MessageKind::grant, 7, 9);
  ASSERT_EQ(outbox.items().size(), 2u);
  outbox.clear();
  EXPECT_TRUE(outbox.empty());
  outbox.send(rank_of(3), MessageKind::final, 8);
  ASSERT_EQ(outbox.items().size(), 1u);
  EXPECT_EQ(outbox.items()[0].to, rank_of(3));
  EXPECT_EQ(outbox.items()[0].message.range_count, 0u)
      << "the outbox must drop the ranges of cleared messages";
  EXPECT_EQ(outbox.items()[0].message.argument, 0u);
}

}  // namespace
}  // namespace tutti::protocol
