// UMAC-64 as the pseudocode of RFC 4418 defines it, on byte strings, with libcrypto's AES. It
// shares no code with src/wire and is not made to be fast. The comments give the section of the
// RFC.
#pragma once

#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace tutti::test::umac {

using String = std::vector<std::uint8_t>;
__extension__ using Wide = unsigned __int128;

inline String part(const String& s, std::size_t from, std::size_t size) {
  const auto begin = s.begin() + static_cast<std::ptrdiff_t>(from);
  return String(begin, begin + static_cast<std::ptrdiff_t>(size));
}

inline String operator+(const String& a, const String& b) {
  String both(a.size() + b.size());
  std::copy(b.begin(), b.end(), std::copy(a.begin(), a.end(), both.begin()));
  return both;
}

inline std::uint64_t str2uint(const String& s) {
  std::uint64_t value = 0;
  for (const std::uint8_t byte : s) value = value << 8 | byte;
  return value;
}

inline String uint2str(std::uint64_t value, std::size_t size) {
  String s(size);
  for (std::size_t i = size; i > 0 && value > 0; --i, value >>= 8)
    s[i - 1] = static_cast<std::uint8_t>(value);
  return s;
}

inline String exclusive_or(String a, const String& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] ^= b[i];
  return a;
}

/// ENCIPHER of RFC 4418, 3.1: encrypts any number of blocks by AES-128.
inline String encipher(const String& key, const String& blocks) {
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  String out(blocks.size());
  int written = 0;
  const bool done =
      EVP_EncryptInit_ex(context, EVP_aes_128_ecb(), nullptr, key.data(), nullptr) == 1 &&
      EVP_CIPHER_CTX_set_padding(context, 0) == 1 &&
      EVP_EncryptUpdate(context, out.data(), &written, blocks.data(),
                        static_cast<int>(blocks.size())) == 1;
  EVP_CIPHER_CTX_free(context);
  if (!done) throw std::runtime_error("libcrypto does not encrypt by AES-128");
  return out;
}

/// KDF of RFC 4418, 3.2.1.
inline String kdf(const String& key, std::uint64_t index, std::size_t size) {
  String blocks;
  for (std::uint64_t i = 1; i <= (size + 15) / 16; ++i)
    blocks = blocks + uint2str(index, 8) + uint2str(i, 8);
  return part(encipher(key, blocks), 0, size);
}

/// PDF of RFC 4418, 3.3.1: the pad for tags of 8 bytes.
inline String pdf(const String& key, String nonce) {
  const std::size_t index = nonce.back() % 2;
  nonce.back() = static_cast<std::uint8_t>(nonce.back() - index);
  nonce.resize(16);
  return part(encipher(kdf(key, 0, 16), nonce), index * 8, 8);
}

/// NH of RFC 4418, 5.2.2. It reads message words as little-endian, so that its caller need not
/// convert the byte order of the message as in the RFC.
inline std::uint64_t nh(const String& key, const String& message) {
  const auto message_word = [&](std::size_t i) {
    std::uint32_t word = 0;
    for (std::size_t byte = 4; byte > 0; --byte) word = word << 8 | message[4 * i + byte - 1];
    return word;
  };
  const auto key_word = [&](std::size_t i) {
    std::uint32_t word = 0;
    for (std::size_t byte = 0; byte < 4; ++byte) word = word << 8 | key[4 * i + byte];
    return word;
  };
  std::uint64_t y = 0;
  for (std::size_t i = 0; i < message.size() / 4; i += 8) {
    for (std::size_t j = i; j < i + 4; ++j) {
      const std::uint32_t a = message_word(j) + key_word(j);
      const std::uint32_t b = message_word(j + 4) + key_word(j + 4);
      y += std::uint64_t{a} * b;
    }
  }
  return y;
}

/// L1-HASH of RFC 4418, 5.2.1.
inline String l1_hash(const String& key, const String& message) {
  String y;
  const std::size_t blocks = std::max<std::size_t>((message.size() + 1023) / 1024, 1);
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t size = std::min<std::size_t>(1024, message.size() - 1024 * i);
    String block = part(message, 1024 * i, size);
    block.resize(std::max<std::size_t>((size + 31) / 32 * 32, 32));
    y = y + uint2str(nh(key, block) + 8 * size, 8);
  }
  return y;
}

/// POLY of RFC 4418, 5.3.2, with 64-bit words.
inline std::uint64_t poly64(std::uint64_t maxwordrange, std::uint64_t k, const String& message) {
  const Wide p = (Wide{1} << 64) - 59;
  const std::uint64_t offset = 59;
  const Wide marker = p - 1;
  Wide y = 1;
  for (std::size_t at = 0; at < message.size(); at += 8) {
    const std::uint64_t m = str2uint(part(message, at, 8));
    if (m >= maxwordrange) {
      y = (Wide{k} * y + marker) % p;
      y = (Wide{k} * y + (m - offset)) % p;
    } else {
      y = (Wide{k} * y + m) % p;
    }
  }
  return static_cast<std::uint64_t>(y);
}

/// L2-HASH of RFC 4418, 5.3.1, for messages that are too short to need POLY-128.
inline String l2_hash(const String& key, const String& message) {
  if (message.size() > (std::size_t{1} << 17)) throw std::length_error("needs POLY-128");
  const std::uint64_t k64 = str2uint(part(key, 0, 8)) & 0x01ffffff01ffffff;
  const std::uint64_t maxwordrange = ~std::uint64_t{0} - 0xffffffff;  // 2^64 - 2^32
  return String(8) + uint2str(poly64(maxwordrange, k64, message), 8);
}

/// L3-HASH of RFC 4418, 5.4.1.
inline String l3_hash(const String& k1, const String& k2, const String& message) {
  const std::uint64_t prime36 = 68719476731;
  std::uint64_t y = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    const std::uint64_t m = str2uint(part(message, 2 * i, 2));
    const std::uint64_t k = str2uint(part(k1, 8 * i, 8)) % prime36;
    y = (y + m * k) % prime36;
  }
  return exclusive_or(uint2str(y & 0xffffffff, 4), k2);
}

/// The keys for 8-byte tags (RFC 4418, 5.1.1).
struct Keys {
  explicit Keys(const String& key)
      : umac(key),
        l1(kdf(key, 1, 1024 + 16)),
        l2(kdf(key, 2, 2 * 24)),
        l3_1(kdf(key, 3, 2 * 64)),
        l3_2(kdf(key, 4, 2 * 4)) {}

  String umac;
  String l1;
  String l2;
  String l3_1;
  String l3_2;
};

/// UHASH of RFC 4418, 5.1.1.
inline String uhash(const Keys& keys, const String& message) {
  String y;
  for (std::size_t i = 0; i < 2; ++i) {
    const String a = l1_hash(part(keys.l1, 16 * i, 1024), message);
    const String b = message.size() <= 1024 ? String(8) + a : l2_hash(part(keys.l2, 24 * i, 24), a);
    y = y + l3_hash(part(keys.l3_1, 64 * i, 64), part(keys.l3_2, 4 * i, 4), b);
  }
  return y;
}

/// The 8-byte UMAC tag of a message (RFC 4418, 4.1).
inline String tag(const Keys& keys, const String& nonce, const String& message) {
  return exclusive_or(pdf(keys.umac, nonce), uhash(keys, message));
}

}  // namespace tutti::test::umac
