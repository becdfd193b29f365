// Tests the core of the keyed tag with published vectors and against an implementation from the
// RFC's pseudocode. TUTTI_TEST_UMAC_MESSAGES is the number of random messages.
#include "wire/umac.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "count_wanted.hpp"
#include "umac_reference.hpp"

namespace tutti::wire {
namespace {

using test::umac::String;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::shared_ptr<const UmacKey> key_of(std::span<const std::byte> key) {
  return UmacKey::derive(key.first<kUmacKeyBytes>()).value();
}

std::vector<IntegrityKernels> kernels_here() {
  std::vector<IntegrityKernels> here;
  for (const IntegrityKernels& kernels : umac_kernels()) {
    if (kernels.runs_here()) here.push_back(kernels);
  }
  return here;
}

/// The tag as a number in the byte order in which the RFC prints tags.
std::uint64_t tag_of(const IntegrityKernels& kernels, const UmacKey& key,
                     std::span<const std::byte> nonce, std::span<const std::byte> message) {
  return __builtin_bswap64(umac64(kernels, key, PadChoice::of(nonce), {.first = message}));
}

std::string repeated(std::string_view pattern, std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = pattern[i % pattern.size()];
  return text;
}

struct Vector {
  std::string_view nonce;
  std::string_view pattern;
  std::size_t size;
  std::uint64_t tag;
};

void expect_vectors(std::span<const Vector> vectors) {
  const auto key = key_of(bytes_of("abcdefghijklmnop"));
  for (const Vector& vector : vectors) {
    const std::string message = repeated(vector.pattern, vector.size);
    for (const IntegrityKernels& kernels : kernels_here()) {
      EXPECT_EQ(tag_of(kernels, *key, bytes_of(vector.nonce), bytes_of(message)), vector.tag)
          << kernels.name << ": " << vector.size << " bytes of " << vector.pattern;
    }
    const auto* const begin = reinterpret_cast<const std::uint8_t*>(message.data());
    const String nonce(vector.nonce.begin(), vector.nonce.end());
    const String tag =
        test::umac::tag(test::umac::Keys(String{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j',
                                                'k', 'l', 'm', 'n', 'o', 'p'}),
                        nonce, String(begin, begin + message.size()));
    EXPECT_EQ(test::umac::str2uint(tag), vector.tag) << "reference: " << vector.size << " bytes";
  }
}

// RFC 4418, appendix. Its vector of 2^25 bytes, which erratum 3507 corrects, is absent because
// messages above 2^24 bytes need POLY-128.
TEST(Umac, Tags_equalTheVectorsOfTheRfc) {
  static constexpr Vector kVectors[] = {
      {"bcdefghi", "a", 0, 0x6E15'5FAD'2690'0BE1},
      {"bcdefghi", "a", 3, 0x44B5'CB54'2F22'0104},
      {"bcdefghi", "a", 1 << 10, 0x26BF'2F5D'6011'8BD9},
      {"bcdefghi", "a", 1 << 15, 0x27F8'EF64'3B0D'118D},
      {"bcdefghi", "a", 1 << 20, 0xA447'7E87'E9F5'5853},
      {"bcdefghi", "abc", 3, 0xD4D7'B9F6'BD4F'BFCF},
      {"bcdefghi", "abc", 1500, 0xD4CF'26DD'EFD5'C01A},
  };
  expect_vectors(kVectors);
}

// Vectors of the test suite of Nettle (testsuite/umac-test.c): every length of nonce, and message
// sizes near multiples of the group size and the block size.
TEST(Umac, Tags_equalThoseOfNettle) {
  static constexpr Vector kVectors[] = {
      {"b", "def", 0, 0x9e38'f67d'a91a'08d9},
      {"bc", "def", 1, 0xfb0e'2079'71b8'e66a},
      {"bcd", "def", 2, 0x1ae6'e02d'73aa'9ab2},
      {"bcde", "def", 3, 0xc81c'f223'42e8'4302},
      {"bcdef", "def", 4, 0xaba0'03e7'bd67'3cc3},
      {"bcdefg", "def", 1020, 0xf988'28a1'61bb'4ae3},
      {"bcdefgh", "def", 1021, 0x2d54'936b'e5bf'f72d},
      {"bcdefghi", "def", 1022, 0x2cee'9784'5563'87b3},
      {"bcdefghij", "def", 1023, 0x24ac'4284'ca37'1f42},
      {"bcdefghijk", "def", 1024, 0x64c6'a0fd'1461'5a76},
      {"bcdefghijkl", "def", 1025, 0x9325'1e18'e56b'bdc4},
      {"bcdefghijklm", "def", 1026, 0x5d98'bd8d'faf1'6352},
      {"bcdefghijklmn", "def", 1027, 0x5b05'57c9'fdcf'661b},
      {"bcdefghijklmno", "def", 2046, 0x65e8'5d47'447c'2277},
      {"bcdefghijklmnop", "def", 2047, 0x34d7'23a6'cb16'76d3},
      {"bcdefghijklmnopq", "def", 2048, 0x3968'd5d0'af14'7884},
      {"b", "def", 2049, 0xad1e'e4ab'6060'61c5},
      {"bc", "def", 2050, 0x835f'4a82'4210'0055},
      {"bcdefgh", "def", kUmacMaxBytes, 0x42d8'562a'224a'9e9a},
  };
  expect_vectors(kVectors);
}

class Messages {
 public:
  std::uint64_t word() { return random_(); }
  String string(std::size_t size) {
    String bytes(size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random_() >> 24);
    return bytes;
  }
  /// A random message size: mostly that of a datagram, sometimes near a multiple of the block size.
  std::size_t size() {
    const std::uint64_t kind = word() % 8;
    if (kind == 0) return word() % 100;
    if (kind == 1) return (word() % 9) * kNhBlockBytes + word() % 3;
    return word() % 9001;
  }

 private:
  std::mt19937_64 random_{20};
};

TEST(Umac, TagsOfRandomMessages_equalThoseOfThePseudocode) {
  constexpr std::uint64_t kMessagesPerKey = 500;
  const std::uint64_t messages = test::count_wanted("TUTTI_TEST_UMAC_MESSAGES", 10'000);
  const std::vector<IntegrityKernels> all = kernels_here();
  Messages draw;
  std::shared_ptr<const UmacKey> key;
  test::umac::Keys reference(draw.string(16));
  std::vector<std::byte> copy(9100);
  std::uint64_t compared = 0;
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < messages; ++i) {
    if (i % kMessagesPerKey == 0) {
      const String umac_key = draw.string(16);
      reference = test::umac::Keys(umac_key);
      key = key_of(std::as_bytes(std::span(umac_key)));
    }
    const std::size_t offset = draw.word() % 64;
    const String nonce = draw.string(1 + draw.word() % 16);
    const String message = draw.string(draw.size());
    String moved(offset);
    moved.insert(moved.end(), message.begin(), message.end());
    const auto body = std::as_bytes(std::span(moved)).subspan(offset);
    const std::uint64_t expected = test::umac::str2uint(test::umac::tag(reference, nonce, message));
    const PadChoice pad = PadChoice::of(std::as_bytes(std::span(nonce)));
    const std::size_t cut = body.size() - std::min<std::size_t>(body.size(), draw.word() % 33);
    for (const IntegrityKernels& kernels : all) {
      const std::uint64_t tag = umac64(kernels, *key, pad, {.first = body});
      ASSERT_EQ(__builtin_bswap64(tag), expected) << kernels.name << " at " << body.size();
      std::byte* const to = copy.data() + draw.word() % 64;
      const UmacMessage parts{.first = body.first(cut), .end = body.subspan(cut)};
      ASSERT_EQ(umac64_copy(kernels, *key, pad, to, parts), tag) << kernels.name;
      ASSERT_TRUE(std::equal(parts.first.begin(), parts.first.end(), to)) << kernels.name;
      compared += 2;
    }
    bytes += message.size();
  }
  std::printf(
      "[ figures  ] %llu tags of %llu random messages, %llu bytes in all, by %zu implementations "
      "equal those of the pseudocode\n",
      static_cast<unsigned long long>(compared), static_cast<unsigned long long>(messages),
      static_cast<unsigned long long>(bytes), all.size());
}

/// Returns a block for which the NH hash in the given stream and the block's length in bits add up
/// to `value`. `value` must be above 2^64 - 2^33.
String block_with_value(const test::umac::Keys& keys, std::size_t stream, std::uint64_t value) {
  // NH is a sum of products of two words. Only three products of this block differ from 0: the
  // square of the largest word, a multiple of the largest word, and the remainder of `value`.
  const std::uint64_t largest = 0xffff'ffff;
  const std::uint64_t left = value - 8 * kNhBlockBytes - largest * largest;
  const std::uint64_t factors[3][2] = {
      {largest, largest}, {largest, left / largest}, {left % largest, 1}};
  String block(kNhBlockBytes);
  for (std::size_t word = 0; word < kNhBlockBytes / 4; ++word) {
    const std::size_t pair = word / 8 * 4 + word % 4;
    const std::uint64_t wanted = pair < 3 ? factors[pair][word / 4 % 2] : 0;
    const auto key = static_cast<std::uint32_t>(
        test::umac::str2uint(test::umac::part(keys.l1, 16 * stream + 4 * word, 4)));
    const std::uint32_t plain = static_cast<std::uint32_t>(wanted) - key;
    for (std::size_t i = 0; i < 4; ++i)
      block[4 * word + i] = static_cast<std::uint8_t>(plain >> (8 * i));
  }
  return block;
}

// POLY treats words of 2^64 - 2^32 and above separately. Only one in 2^32 random blocks gives such
// a word, so this test constructs blocks that do.
TEST(Umac, Poly_ofBlockValuesNearTwoToThe64_givesTheTagOfThePseudocode) {
  Messages draw;
  const String umac_key = draw.string(16);
  const test::umac::Keys reference(umac_key);
  const auto key = key_of(std::as_bytes(std::span(umac_key)));
  const String nonce = draw.string(16);
  for (const std::uint64_t below : {1ull, 2ull, 58ull, 59ull, 60ull, 61ull, 0xffff'ffffull,
                                    0x1'0000'0000ull, 0x1'0000'0001ull}) {
    for (std::size_t stream = 0; stream < 2; ++stream) {
      const std::uint64_t value = 0 - below;
      const String block = block_with_value(reference, stream, value);
      ASSERT_EQ(test::umac::nh(test::umac::part(reference.l1, 16 * stream, 1024), block) +
                    8 * kNhBlockBytes,
                value);
      const String message = test::umac::operator+(test::umac::operator+(block, block), block);
      const std::uint64_t expected =
          test::umac::str2uint(test::umac::tag(reference, nonce, message));
      for (const IntegrityKernels& kernels : kernels_here()) {
        EXPECT_EQ(tag_of(kernels, *key, std::as_bytes(std::span(nonce)),
                         std::as_bytes(std::span(message))),
                  expected)
            << kernels.name << " at 2^64 - " << below;
      }
    }
  }
}

TEST(Umac, EveryFlippedBitOfNonceOrMessage_changesTheTag) {
  Messages draw;
  const String umac_key = draw.string(16);
  const auto key = key_of(std::as_bytes(std::span(umac_key)));
  for (const IntegrityKernels& kernels : kernels_here()) {
    String nonce = draw.string(16);
    String message = draw.string(1100);
    const auto tag = [&] {
      return tag_of(kernels, *key, std::as_bytes(std::span(nonce)),
                    std::as_bytes(std::span(message)));
    };
    std::vector<std::uint64_t> tags = {tag()};
    for (String* const text : {&nonce, &message}) {
      for (std::size_t bit = 0; bit < 8 * text->size(); ++bit) {
        const auto mask = static_cast<std::uint8_t>(1 << (bit % 8));
        (*text)[bit / 8] ^= mask;
        tags.push_back(tag());
        (*text)[bit / 8] ^= mask;
      }
    }
    std::sort(tags.begin(), tags.end());
    EXPECT_EQ(std::adjacent_find(tags.begin(), tags.end()), tags.end()) << kernels.name;
  }
}

}  // namespace
}  // namespace tutti::wire
