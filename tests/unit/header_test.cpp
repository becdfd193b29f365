// Tests the wire headers as bytes: each field lies at its offset, and headers of other versions are
// refused.
#include "wire/header.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "wire/uc_fragment.hpp"

namespace tutti::wire {
namespace {

constexpr Header kHeader{.kind = PacketKind::message,
                         .subgroup = 0x11,
                         .communicator = 0x2322,
                         .source = rank_of(0x37363534),
                         .epoch = 0x4b4a4948,
                         .psn = 0x5f5e5d5c,
                         .counter = 0x6766'6564'6362'6160,
                         .tag = 0x7776'7574'7372'7170};

std::array<std::byte, kHeaderBytes> encoded(const Header& header) {
  std::array<std::byte, kHeaderBytes> bytes{};
  encode(header, bytes.data());
  return bytes;
}

TEST(WireHeader, Encoding_hasEachFieldLittleEndianAtItsOffset) {
  const std::array<int, kHeaderBytes> expected = {0x24, 0x11, 0x22, 0x23, 0x34, 0x35, 0x36, 0x37,
                                                  0x48, 0x49, 0x4a, 0x4b, 0x5c, 0x5d, 0x5e, 0x5f,
                                                  0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67,
                                                  0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77};
  const auto bytes = encoded(kHeader);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
  }
  EXPECT_EQ(decode(bytes), kHeader);
}

TEST(WireHeader, OtherVersionsUnknownKindsAndShortDatagramsAreRefused) {
  const auto bytes = encoded(kHeader);
  EXPECT_FALSE(decode(std::span(bytes).first(kHeaderBytes - 1)));
  for (int first = 0; first < 256; ++first) {
    auto other = bytes;
    other[0] = static_cast<std::byte>(first);
    const bool known = first > 0x20 && first <= 0x26;
    EXPECT_EQ(decode(other).has_value(), known) << first;
  }
}

TEST(WireHeader, Text_namesEachField) {
  EXPECT_EQ(to_string(Header{.source = rank_of(7), .epoch = 12, .psn = 99, .counter = 5, .tag = 6}),
            "chunk comm 0 subgroup 0 source 7 epoch 12 psn 99 counter 5 tag 0x6");
}

TEST(UcFragment, Encoding_isTheMessageHeaderAndTwoFields) {
  static_assert(kFragmentHeaderBytes == 40);
  const UcFragment fragment{.message = kHeader, .offset = 300, .bytes = 20, .message_bytes = 320};
  std::array<std::byte, kFragmentHeaderBytes> bytes{};
  encode(fragment, bytes.data());
  const auto message = encoded(kHeader);
  EXPECT_TRUE(std::equal(message.begin(), message.end(), bytes.begin()));
  EXPECT_EQ(decode_fragment(bytes, 20), fragment);
  EXPECT_FALSE(decode_fragment(bytes, 21));
}

}  // namespace
}  // namespace tutti::wire
