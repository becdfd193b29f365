// Tests the wrappers of libcrypto with published vectors: SHA-256 (FIPS 180-4), HKDF (RFC 5869),
// X25519 (RFC 7748), AES-256-GCM (McGrew and Viega, test cases 13 to 16), and AES-128 (FIPS 197,
// C.1).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/hex.hpp"
#include "crypto/aead.hpp"
#include "crypto/block_cipher.hpp"
#include "crypto/hash.hpp"
#include "crypto/secret.hpp"
#include "crypto/x25519.hpp"

namespace tutti::crypto {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view hex) {
  Bytes bytes(hex.size() / 2);
  EXPECT_TRUE(from_hex(hex, bytes)) << hex;
  return bytes;
}

Secret secret_of(std::string_view hex) {
  Secret secret;
  EXPECT_TRUE(from_hex(hex, secret.writable())) << hex;
  return secret;
}

PublicKey public_key_of(std::string_view hex) {
  PublicKey key{};
  EXPECT_TRUE(from_hex(hex, key)) << hex;
  return key;
}

/// The bytes `first`, `first` + 1 and so on.
Bytes count_from(int first, std::size_t size) {
  Bytes bytes;
  for (std::size_t i = 0; i < size; ++i)
    bytes.push_back(static_cast<std::byte>(static_cast<std::size_t>(first) + i));
  return bytes;
}

TEST(Hex, Text_ofTheWrongLengthOrWithNonHexDigits_isRefused) {
  Bytes bytes(2);
  EXPECT_TRUE(from_hex("0aFf", bytes));
  EXPECT_EQ(to_hex(bytes), "0aff");
  for (const char* text : {"", "0aF", "0aFf0", "0aFf00", "0agf", "0a f", "0aF:", "0aF/", "0aF`"}) {
    EXPECT_FALSE(from_hex(text, bytes)) << text;
  }
}

TEST(Secret, MovedSecret_leavesZeros) {
  Secret first = secret_of(std::string(64, 'a'));
  const Bytes value(first.bytes().begin(), first.bytes().end());
  Secret second = std::move(first);
  const Bytes zeros(Secret::kBytes);
  EXPECT_TRUE(equal(first.bytes(), zeros));  // NOLINT: the test examines a moved-from object
  EXPECT_TRUE(equal(second.bytes(), value));
  first = std::move(second);
  EXPECT_TRUE(equal(second.bytes(), zeros));  // NOLINT
  EXPECT_TRUE(equal(first.copy().bytes(), value));
}

TEST(Secret, RandomSecretsDiffer) {
  const Secret zeros;
  const auto one = Secret::random();
  EXPECT_FALSE(equal(one->bytes(), zeros.bytes()));
  EXPECT_FALSE(equal(one->bytes(), Secret::random()->bytes()));
}

TEST(Secret, Comparison_detectsAChangeOfAnyByteOrOfTheSize) {
  const Bytes text = count_from(0, 40);
  EXPECT_TRUE(equal(text, Bytes(text)));
  EXPECT_FALSE(equal(text, count_from(0, 39)));
  for (std::size_t i = 0; i < text.size(); ++i) {
    Bytes other = text;
    other[i] ^= std::byte{0x80};
    EXPECT_FALSE(equal(text, other)) << i;
  }
}

TEST(Sha256, PublishedTestVectors_areReproduced) {
  EXPECT_EQ(to_hex(sha256(bytes_of("616263")).value()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256({}).value()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

std::string hkdf_hex(const HkdfInput& input, std::size_t size) {
  Bytes out(size);
  const Status status = hkdf(input, out);
  return status.ok() ? to_hex(out) : status.to_string();
}

TEST(Hkdf, TestVectorsOfRfc5869_areReproduced) {
  const Bytes key(22, std::byte{0x0b});
  EXPECT_EQ(hkdf_hex({.key = key, .salt = count_from(0, 13), .info = count_from(0xf0, 10)}, 42),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  EXPECT_EQ(
      hkdf_hex(
          {.key = count_from(0, 80), .salt = count_from(0x60, 80), .info = count_from(0xb0, 80)},
          82),
      "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41"
      "c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87");
  EXPECT_EQ(hkdf_hex({.key = key}, 42),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

TEST(Hkdf, MoreBytesThanTheStandardAllows_areRefused) {
  const Bytes key(32);
  Bytes out(255 * 32);
  EXPECT_TRUE(hkdf({.key = key}, out).ok());
  out.resize(out.size() + 1);
  EXPECT_EQ(hkdf({.key = key}, out).code(), Code::internal);
}

TEST(Derive, KeysOfDifferentLabelsOrContexts_areDifferent) {
  const Secret key = secret_of(std::string(64, '7'));
  const auto one = derive(key, "one");
  EXPECT_TRUE(equal(one->bytes(), derive(key, "one")->bytes()));
  EXPECT_FALSE(equal(one->bytes(), derive(key, "two")->bytes()));
  EXPECT_FALSE(equal(one->bytes(), derive(key, "one", 1)->bytes()));
}

struct X25519Vector {
  const char* private_key;
  const char* other;
  const char* shared;
};

TEST(X25519, TestVectorsOfRfc7748_areReproduced) {
  for (const X25519Vector& vector :
       {X25519Vector{"a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
                     "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
                     "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"},
        X25519Vector{"4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
                     "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
                     "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"},
        X25519Vector{"77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
                     "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
                     "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"}}) {
    const auto pair = KeyPair::of(secret_of(vector.private_key));
    const auto shared = pair->shared_with(public_key_of(vector.other));
    ASSERT_TRUE(shared.ok()) << shared.status().to_string();
    EXPECT_EQ(to_hex(shared->bytes()), vector.shared);
  }
  const auto alice = secret_of("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
  EXPECT_EQ(to_hex(KeyPair::of(alice)->public_key()),
            "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
}

TEST(X25519, PublicKeyOfLowOrder_isRefused) {
  const auto pair = KeyPair::random();
  for (const char* weak : {"0000000000000000000000000000000000000000000000000000000000000000",
                           "0100000000000000000000000000000000000000000000000000000000000000",
                           "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                           "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"}) {
    EXPECT_EQ(pair->shared_with(public_key_of(weak)).status().code(), Code::invalid_argument)
        << weak;
  }
}

struct GcmVector {
  std::string key;
  std::string nonce;
  std::string associated;
  std::string plain;
  std::string sealed;
};

const std::string kText =
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6"
    "b525b16aedf5aa0de657ba637b391aafd255";
const std::string kCipher =
    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b105682"
    "8838c5f61e6393ba7a0abcc9f662898015ad";
const std::string kKey = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";

TEST(Aead, TestVectorsOfGcm_areReproduced) {
  const std::string zeros(128, '0');
  for (const GcmVector& vector :
       {GcmVector{zeros.substr(0, 64), zeros.substr(0, 24), "", "",
                  "530f8afbc74536b9a963b4f1c4cb738b"},
        GcmVector{zeros.substr(0, 64), zeros.substr(0, 24), "", zeros.substr(0, 32),
                  "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"},
        GcmVector{kKey, "cafebabefacedbaddecaf888", "", kText,
                  kCipher + "b094dac5d93471bdec1a502270e3cc6c"},
        GcmVector{kKey, "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
                  kText.substr(0, 120),
                  kCipher.substr(0, 120) + "76fc6ece0f4e1768cddf8853bb2d551b"}}) {
    const Bytes associated = bytes_of(vector.associated);
    Sealing how{.associated = associated};
    ASSERT_TRUE(from_hex(vector.nonce, how.nonce));
    const Secret key = secret_of(vector.key);
    const auto sealed = seal(key, bytes_of(vector.plain), how);
    ASSERT_TRUE(sealed.ok()) << sealed.status().to_string();
    EXPECT_EQ(to_hex(*sealed), vector.sealed);
    Bytes plain(sealed->size() - kSealTagBytes);
    EXPECT_TRUE(unseal(key, *sealed, plain, how).ok());
    EXPECT_EQ(to_hex(plain), vector.plain);
  }
}

TEST(Aead, ChangedMessage_isRefused_andThePlainTextIsWiped) {
  const Secret key = secret_of(kKey);
  const Bytes associated = count_from(0, 5);
  const Sealing how{.associated = associated};
  const Bytes sealed = seal(key, count_from(1, 20), how).value();
  const auto refused = [&](const Secret& with, const Bytes& bytes, const Sealing& other) {
    Bytes plain(20, std::byte{1});
    return !unseal(with, bytes, plain, other).ok() && plain == Bytes(20);
  };
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    Bytes changed = sealed;
    changed[i] ^= std::byte{1};
    EXPECT_TRUE(refused(key, changed, how)) << i;
  }
  EXPECT_TRUE(refused(key, Bytes(sealed.begin(), sealed.end() - 1), how));
  EXPECT_TRUE(refused(key, {}, how));
  EXPECT_TRUE(refused(key, sealed, {}));
  EXPECT_TRUE(refused(key, sealed, {.nonce = {std::byte{1}}, .associated = associated}));
  EXPECT_TRUE(refused(Secret(), sealed, how));
}

TEST(BlockCipher, EncryptedBlock_equalsThatOfTheStandard) {
  const Bytes key = count_from(0, 16);
  const auto made = BlockCipher::aes128(std::span(key).first<BlockCipher::kBytes>());
  ASSERT_TRUE(made.ok());
  const BlockCipher& cipher = **made;
  BlockCipher::Block block;
  const Bytes plain = bytes_of("00112233445566778899aabbccddeeff");
  std::copy(plain.begin(), plain.end(), block.begin());
  EXPECT_EQ(to_hex(cipher.encrypt(block)), "69c4e0d86a7b0430d8cdb78070b4c55a");
  EXPECT_EQ(to_hex(cipher.encrypt(block)), "69c4e0d86a7b0430d8cdb78070b4c55a");
}

}  // namespace
}  // namespace tutti::crypto
