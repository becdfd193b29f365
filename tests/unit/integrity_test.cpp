#include "wire/integrity.hpp"

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "umac_reference.hpp"
#include "wire/header.hpp"
#include "wire/integrity_kernels.hpp"
#include "wire/uc_fragment.hpp"

namespace tutti::wire {
namespace {

using Bytes = std::vector<std::byte>;
using Header = std::array<std::byte, kIntegrityHeaderBytes>;

constexpr std::uint64_t kContext = 0x1122'3344'5566'7788;
constexpr std::size_t kLargestPayload = 65507;

Bytes random_bytes(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Header header_of(std::uint32_t seed) {
  Header header;
  std::ranges::copy(random_bytes(header.size(), seed), header.begin());
  return header;
}

Integrity keyed_with(std::uint32_t seed, std::uint64_t context = kContext) {
  return Integrity::keyed(random_bytes(32, seed), context).value();
}

/// Returns `integrity` once for each implementation of its kind, with the same key. The fastest
/// implementation comes first.
std::vector<Integrity> all_implementations(const Integrity& integrity) {
  std::vector<Integrity> all;
  for (const std::string_view name : Integrity::implementations(integrity.kind())) {
    all.push_back(integrity.with_implementation(name).value());
    EXPECT_EQ(all.back().implementation(), name);
  }
  return all;
}

/// The UMAC key, derived by libcrypto.
test::umac::String umac_key_of(const Bytes& secret, std::uint64_t context) {
  std::string info = "tutti datagram tag 2";
  for (int byte = 0; byte < 8; ++byte) info.push_back(static_cast<char>(context >> (8 * byte)));
  Bytes secret_copy = secret;
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret_copy.data(), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end()};
  EVP_KDF* kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* state = EVP_KDF_CTX_new(kdf);
  test::umac::String out(16);
  EXPECT_EQ(EVP_KDF_derive(state, out.data(), out.size(), parameters), 1);
  EVP_KDF_CTX_free(state);
  EVP_KDF_free(kdf);
  return out;
}

test::umac::String string_of(std::span<const std::byte> bytes) {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {begin, begin + bytes.size()};
}

/// The expected keyed tag of a datagram. It is computed by the pseudocode of RFC 4418, and the
/// nonce is assembled byte by byte.
std::uint64_t tag_reference(const Bytes& secret, std::uint64_t context, const Header& header,
                            const Bytes& payload) {
  using namespace test::umac;
  const String h = string_of(header);
  String nonce = {0, 0, static_cast<std::uint8_t>(h[0] & 0xf), h[1]};
  if ((h[0] & 0xf) == static_cast<std::uint8_t>(PacketKind::reliable)) {
    nonce = {static_cast<std::uint8_t>(h[15] | 0x80), h[14], h[13], h[12]};
  }
  for (const int at : {7, 6, 5, 4}) nonce.push_back(h[at]);
  for (int at = 23; at >= 16; --at) nonce.push_back(h[at]);
  const String message = test::umac::operator+(string_of(payload), h);
  const String tag = test::umac::tag(Keys(umac_key_of(secret, context)), nonce, message);
  std::uint64_t result;
  std::memcpy(&result, tag.data(), sizeof result);
  return result;
}

std::uint32_t crc_reference(const Header& header, const Bytes& payload) {
  std::uint32_t state = ~std::uint32_t{0};
  const auto append = [&state](std::byte byte) {
    state ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78u : 0u);
  };
  std::ranges::for_each(header, append);
  std::ranges::for_each(payload, append);
  return ~state;
}

const std::vector<std::size_t> kSampledSizes = {
    0,    1,    31,   32,   33,   64,   1439, 1440, 2047,  2048,
    2049, 4095, 4096, 4097, 6144, 8192, 8999, 9000, 65000, kLargestPayload};

TEST(IntegrityKeyed, Tag_equalsThatOfTheRfcsPseudocode) {
  for (const std::size_t secret_size : {16u, 24u, 32u}) {
    const Bytes secret = random_bytes(secret_size, 40);
    const Integrity integrity = Integrity::keyed(secret, kContext).value();
    for (const std::size_t size : kSampledSizes) {
      const Bytes payload = random_bytes(size, static_cast<std::uint32_t>(size));
      const Header header = header_of(7);
      EXPECT_EQ(integrity.tag(header.data(), payload),
                tag_reference(secret, kContext, header, payload))
          << size;
    }
  }
}

// Words whose bits are all 0 or all 1 are the most likely to reveal a lost carry in a sum.
TEST(IntegrityKeyed, TagOfExtremePayloads_equalsThatOfThePseudocode) {
  const Bytes secret = random_bytes(32, 41);
  const Integrity integrity = Integrity::keyed(secret, 0).value();
  const Header header{};
  for (const std::byte fill : {std::byte{0x00}, std::byte{0xff}}) {
    for (const std::size_t size : kSampledSizes) {
      const Bytes payload(size, fill);
      EXPECT_EQ(integrity.tag(header.data(), payload), tag_reference(secret, 0, header, payload));
    }
  }
}

// The wire form must not change, because ranks of different builds would silently drop each other's
// datagrams.
TEST(IntegrityKeyed, TagsOfKnownInputs_neverChange) {
  Bytes secret(16);
  Bytes payload(3000);
  Header header{};
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * 7);
  for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = static_cast<std::byte>(i);
  for (std::size_t i = 0; i < header.size(); ++i) header[i] = static_cast<std::byte>(i);
  const Integrity integrity = Integrity::keyed(secret, 1).value();
  const std::span<const std::byte> bytes(payload);
  EXPECT_EQ(integrity.tag(header.data(), bytes.first(0)), 0x7bf7'4bb2'278f'1f7eu);
  EXPECT_EQ(integrity.tag(header.data(), bytes.first(1440)), 0x5f1a'5d5e'1138'9414u);
  EXPECT_EQ(integrity.tag(header.data(), bytes), 0x9498'b125'b588'1f2bu);
}

Header header_of_kind(PacketKind kind, std::uint32_t psn) {
  std::array<std::byte, kHeaderBytes> whole;
  encode({.kind = kind,
          .subgroup = 0x0a,
          .communicator = 0xfefe,
          .source = rank_of(0x01020304),
          .epoch = 0xfefefefe,
          .psn = psn,
          .counter = 0x1112'1314'1516'1718},
         whole.data());
  Header header;
  std::copy_n(whole.begin(), header.size(), header.begin());
  return header;
}

TEST(IntegrityNonce, Nonce_holdsStreamSourceAndCounterInBigEndianOrder) {
  const auto nonce = [](PacketKind kind) {
    return nonce_of(header_of_kind(kind, 0x71727374).data());
  };
  const std::uint64_t counter = __builtin_bswap64(0x1112'1314'1516'1718);
  EXPECT_EQ(nonce(PacketKind::chunk), (Block{__builtin_bswap64(0x0000'010a'0102'0304), counter}));
  EXPECT_EQ(nonce(PacketKind::probe), (Block{__builtin_bswap64(0x0000'030a'0102'0304), counter}));
  EXPECT_EQ(nonce(PacketKind::message), (Block{__builtin_bswap64(0x0000'040a'0102'0304), counter}));
  EXPECT_EQ(nonce(PacketKind::group_frame),
            (Block{__builtin_bswap64(0x0000'060a'0102'0304), counter}));
  EXPECT_EQ(nonce(PacketKind::reliable),
            (Block{__builtin_bswap64(0xf172'7374'0102'0304), counter}));
}

TEST(IntegrityKeyed, Tag_ofReliableFrames_equalsThatOfThePseudocode) {
  const Bytes secret = random_bytes(32, 42);
  const Bytes payload = random_bytes(300, 43);
  const Header header = header_of_kind(PacketKind::reliable, 7);
  EXPECT_EQ(Integrity::keyed(secret, 5).value().tag(header.data(), payload),
            tag_reference(secret, 5, header, payload));
}

/// A header after which the CRC register is all ones again, as at the start of a message.
Header neutral_header() {
  // The value that the register must have after the XOR with the last four bytes of the header: 32
  // more shifts then make it all ones.
  std::uint32_t before = ~std::uint32_t{0};
  for (int bit = 0; bit < 32; ++bit) {
    const bool reduced = (before >> 31) != 0;
    before = reduced ? ((before ^ 0x82f63b78u) << 1 | 1u) : before << 1;
  }
  Header header = header_of(20);
  std::uint32_t state = ~std::uint32_t{0};
  for (std::size_t i = 0; i < kIntegrityHeaderBytes - 4; ++i) {
    state ^= std::to_integer<std::uint32_t>(header[i]);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78u : 0u);
  }
  const std::uint32_t last = before ^ state;
  std::memcpy(header.data() + kIntegrityHeaderBytes - 4, &last, sizeof last);
  return header;
}

TEST(IntegrityCrc, CheckValue_equalsThatOfTheStandard) {
  const Header header = neutral_header();
  Bytes digits;
  for (char digit = '1'; digit <= '9'; ++digit) digits.push_back(static_cast<std::byte>(digit));
  for (const Integrity& each : all_implementations(Integrity::crc())) {
    EXPECT_EQ(each.tag(header.data(), digits), 0xe306'9283u) << each.implementation();
  }
}

// The inputs of RFC 3720, appendix B.4: 32 bytes of 0x00, 32 bytes of 0xff, and the bytes 0 to 31.
TEST(IntegrityCrc, CrcValues_equalThePublishedTestVectors) {
  const auto split = [](const Integrity& integrity, const Bytes& message) {
    return integrity.tag(message.data(), std::span(message).subspan(kIntegrityHeaderBytes));
  };
  Bytes counting(32);
  for (std::size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<std::byte>(i);
  for (const Integrity& each : all_implementations(Integrity::crc())) {
    EXPECT_EQ(split(each, Bytes(32)), 0x8a91'36aau);
    EXPECT_EQ(split(each, Bytes(32, std::byte{0xff})), 0x62a8'ab43u);
    EXPECT_EQ(split(each, counting), 0x46dd'794eu);
  }
}

TEST(IntegrityCrc, Crc_equalsAComputationBitByBit) {
  for (const std::size_t size : kSampledSizes) {
    const Bytes payload = random_bytes(size, 21);
    const Header header = header_of(22);
    EXPECT_EQ(Integrity::crc().tag(header.data(), payload), crc_reference(header, payload)) << size;
  }
}

class IntegrityOfKind : public testing::TestWithParam<IntegrityKind> {
 protected:
  Integrity integrity() const {
    return GetParam() == IntegrityKind::keyed_tag ? keyed_with(1) : Integrity::crc();
  }
};

std::string kind_name(const testing::TestParamInfo<IntegrityKind>& info) {
  return info.param == IntegrityKind::keyed_tag ? "keyed_tag" : "crc32c";
}

INSTANTIATE_TEST_SUITE_P(, IntegrityOfKind,
                         testing::Values(IntegrityKind::keyed_tag, IntegrityKind::crc32c),
                         kind_name);

TEST_P(IntegrityOfKind, FastestImplementationIsPickedAndUnknownNamesAreRefused) {
  const auto names = Integrity::implementations(GetParam());
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(integrity().kind(), GetParam());
  EXPECT_EQ(integrity().implementation(), names.front());
  EXPECT_TRUE(names.back().ends_with("/portable"));
#if defined(__x86_64__)
  const bool for_crc = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
  const bool for_tags = __builtin_cpu_supports("aes") && __builtin_cpu_supports("sse4.1");
  EXPECT_EQ(names.size() > 1, GetParam() == IntegrityKind::crc32c ? for_crc : for_tags);
#endif
  const auto refused = integrity().with_implementation("abacus");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::unsupported);
  EXPECT_NE(refused.status().message().find("abacus"), std::string::npos);
}

TEST_P(IntegrityOfKind, ImplementationsAgreeAtEveryLength) {
  const std::vector<Integrity> all = all_implementations(integrity());
  const Bytes bytes = random_bytes(kLargestPayload, 2);
  const Header header = header_of(3);
  Bytes copy(kLargestPayload);
  std::vector<std::size_t> sizes = kSampledSizes;
  for (std::size_t size = 0; size <= 9000; ++size) sizes.push_back(size);
  for (const std::size_t size : sizes) {
    const std::span<const std::byte> payload(bytes.data(), size);
    const std::uint64_t expected = all.back().tag(header.data(), payload);
    for (const Integrity& each : all) {
      ASSERT_EQ(each.tag(header.data(), payload), expected) << each.implementation() << size;
      ASSERT_EQ(each.copy_and_tag(copy.data(), header.data(), payload), expected)
          << each.implementation() << " at " << size;
    }
  }
}

void expect_exact_copy(const Integrity& integrity, std::size_t size, std::size_t source_shift,
                       std::size_t destination_shift) {
  constexpr std::size_t kGuard = 64;
  constexpr std::byte kUntouched{0xa5};
  const Bytes source = random_bytes(size + source_shift, 5);
  const Header header = header_of(6);
  // The payload ends at the end of its allocation, so that a sanitizer detects any read beyond it.
  const std::span<const std::byte> payload(source.data() + source_shift, size);
  Bytes destination(kGuard + destination_shift + size + kGuard, kUntouched);
  std::byte* const target = destination.data() + kGuard + destination_shift;
  EXPECT_EQ(integrity.copy_and_tag(target, header.data(), payload),
            integrity.tag(header.data(), Bytes(payload.begin(), payload.end())));
  const auto is_untouched = [](std::byte byte) { return byte == kUntouched; };
  EXPECT_TRUE(std::all_of(destination.data(), target, is_untouched));
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), target));
  EXPECT_TRUE(std::all_of(target + size, destination.data() + destination.size(), is_untouched));
}

TEST_P(IntegrityOfKind, CopyWithIntegrityWord_atEveryMisalignment_isExact) {
  for (const Integrity& each : all_implementations(integrity())) {
    for (std::size_t shift = 0; shift < 32; ++shift) {
      for (const std::size_t size : {0u, 1u, 17u, 63u, 65u, 191u, 193u, 1440u, 2051u, 8187u}) {
        expect_exact_copy(each, size, shift, (shift * 13) % 32);
        expect_exact_copy(each, size, shift, 0);
        expect_exact_copy(each, size, 0, shift);
      }
    }
  }
}

TEST_P(IntegrityOfKind, PayloadInTwoParts_hasTheIntegrityWordOfTheWholePayload) {
  const Bytes payload = random_bytes(3000, 23);
  const Header header = header_of(24);
  for (const Integrity& each : all_implementations(integrity())) {
    for (const std::size_t size : {0u, 31u, 64u, 65u, 1000u, 1023u, 1025u, 2048u, 3000u}) {
      const std::span<const std::byte> all(payload.data(), size);
      const std::uint64_t whole = each.tag(header.data(), all);
      for (std::size_t cut = 0; cut <= size; cut += kIntegrityPartBytes) {
        EXPECT_EQ(each.tag(header.data(), all.first(cut), all.subspan(cut)), whole)
            << each.implementation() << " at " << cut << " of " << size;
      }
    }
  }
}

TEST_P(IntegrityOfKind, EveryFlippedBit_changesTheIntegrityWord) {
  for (const Integrity& each : all_implementations(integrity())) {
    for (const std::size_t size : {0u, 5u, 32u, 100u, 257u, 1000u, 2100u}) {
      Header header = header_of(8);
      Bytes payload = random_bytes(size, 9);
      std::set<std::uint64_t> words = {each.tag(header.data(), payload)};
      const std::size_t bits = 8 * (header.size() + size);
      for (std::size_t bit = 0; bit < bits; ++bit) {
        const std::size_t at = bit / 8;
        std::byte& byte = at < header.size() ? header[at] : payload[at - header.size()];
        byte ^= std::byte{1} << (bit % 8);
        words.insert(each.tag(header.data(), payload));
        byte ^= std::byte{1} << (bit % 8);
      }
      // All these integrity words must differ: CRC-32C detects any two flipped bits in a datagram
      // of these sizes, and equal keyed tags are very unlikely.
      EXPECT_EQ(words.size(), bits + 1) << each.implementation() << " at " << size;
    }
  }
}

TEST_P(IntegrityOfKind, TrailingZeros_changeTheIntegrityWord) {
  const Bytes zeros(5000);
  const Header header = header_of(10);
  std::set<std::uint64_t> words;
  for (std::size_t size = 0; size <= zeros.size(); ++size) {
    words.insert(integrity().tag(header.data(), std::span(zeros).first(size)));
  }
  EXPECT_EQ(words.size(), zeros.size() + 1);
}

TEST(IntegrityKeyed, SwappedPartsOfThePayload_changeTheTag) {
  const Integrity integrity = keyed_with(1);
  const Header header = header_of(11);
  const Bytes original = random_bytes(8192, 12);
  const std::uint64_t tag = integrity.tag(header.data(), original);
  for (const std::size_t unit : {8u, 32u, 64u, 2048u}) {
    Bytes swapped = original;
    std::swap_ranges(swapped.begin(), swapped.begin() + unit, swapped.begin() + unit);
    EXPECT_NE(integrity.tag(header.data(), swapped), tag) << unit;
  }
}

TEST(IntegrityKeyed, Key_dependsOnTheSecretAndOnTheContext) {
  const Header header = header_of(13);
  const Bytes payload = random_bytes(1440, 14);
  std::set<std::uint64_t> tags;
  for (std::uint32_t secret = 0; secret < 16; ++secret) {
    for (std::uint64_t context = 0; context < 16; ++context) {
      tags.insert(keyed_with(secret, context << 60 | context).tag(header.data(), payload));
    }
  }
  EXPECT_EQ(tags.size(), 256u);
  EXPECT_EQ(keyed_with(3, 4).tag(header.data(), payload),
            keyed_with(3, 4).tag(header.data(), payload));
}

TEST(IntegrityKeyed, OneFlippedBitOfTheSecretChangesTheTag) {
  Bytes secret = random_bytes(16, 15);
  const Header header = header_of(16);
  std::set<std::uint64_t> tags = {Integrity::keyed(secret, 0).value().tag(header.data(), {})};
  for (std::size_t bit = 0; bit < 8 * secret.size(); ++bit) {
    secret[bit / 8] ^= std::byte{1} << (bit % 8);
    tags.insert(Integrity::keyed(secret, 0).value().tag(header.data(), {}));
    secret[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_EQ(tags.size(), 8 * secret.size() + 1);
}

TEST(IntegrityKeyed, SecretOfTheWrongSize_isRefused) {
  for (const std::size_t size : {0u, 1u, 15u, 33u, 64u}) {
    const auto refused = Integrity::keyed(Bytes(size), kContext);
    ASSERT_FALSE(refused.ok()) << size;
    EXPECT_EQ(refused.status().code(), Code::invalid_argument);
    EXPECT_NE(refused.status().message().find(std::to_string(size) + " bytes"), std::string::npos);
  }
}

TEST(IntegrityCrc, CrcWord_fitsInThirtyTwoBits) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const Bytes payload = random_bytes(seed, seed);
    EXPECT_EQ(Integrity::crc().tag(header_of(seed).data(), payload) >> 32, 0u);
  }
}

// A copy may outlive its original, and threads may share one object. The test uses more threads
// than a key has libcrypto contexts.
TEST(IntegrityKeyed, CopiesOfAnIntegrityObject_areUsableFromManyThreads) {
  auto original = std::make_unique<Integrity>(keyed_with(17));
  const Header header = header_of(18);
  const Bytes payload = random_bytes(900, 19);
  const std::uint64_t expected = original->tag(header.data(), payload);
  const std::vector<Integrity> copies = all_implementations(*original);
  original.reset();
  std::array<int, 12> mismatches{};
  std::vector<std::thread> threads;
  for (int& mine : mismatches) {
    threads.emplace_back([&] {
      Bytes destination(payload.size());
      for (int i = 0; i < 200; ++i) {
        const Integrity& copy = copies[static_cast<std::size_t>(i) % copies.size()];
        mine += copy.copy_and_tag(destination.data(), header.data(), payload) != expected;
      }
      mine += destination != payload;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mismatches, (decltype(mismatches){}));
}

}  // namespace
}  // namespace tutti::wire
