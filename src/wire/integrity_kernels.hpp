// Internal to integrity*.cpp: the inner loops of Integrity, one set for each implementation.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "wire/integrity_kind.hpp"

namespace tutti::wire {

static_assert(std::endian::native == std::endian::little, "words are loaded as the wire has them");

/// A group is four pairs of 32-bit words, one AVX2 register.
inline constexpr std::size_t kNhGroupBytes = 32;
/// Size in bytes of an NH block, which is as much as one NH key covers. A payload of at most this
/// size needs no polynomial step.
inline constexpr std::size_t kNhBlockBytes = 2048;
/// An NH key is one group longer than a block, because the second pass uses it shifted by one
/// group.
inline constexpr std::size_t kNhKeyBytes = kNhBlockBytes + kNhGroupBytes;

/// 16 bytes as two words: the sums of both NH passes, a polynomial's value, or an AES block.
struct Block {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

inline constexpr std::size_t kAesKeyBytes = 16;
inline constexpr std::size_t kAesRounds = 10;

/// The round keys of AES-128, as little-endian words.
struct AesKey {
  alignas(16) std::array<std::uint32_t, 4 * (kAesRounds + 1)> rounds{};
};

AesKey expand_aes_key(std::span<const std::byte, kAesKeyBytes> key);

/// Encrypts one block by AES. The portable version looks up secret bytes in a table of 256 bytes.
using EncryptFunction = Block (*)(const AesKey& key, Block block);
Block aes_encrypt_portable(const AesKey& key, Block block);
#if defined(__x86_64__)
Block aes_encrypt_aesni(const AesKey& key, Block block);
#endif

/// Computes NH of `groups` whole groups at `source`. The copying version also copies the groups to
/// `destination`; the other version ignores it. `key` is aligned to a group and is one group longer
/// than `source`.
using NhFunction = Block (*)(const std::byte* key, std::byte* destination, const std::byte* source,
                             std::size_t groups);

/// Advances a CRC-32C register over `size` bytes; the caller initialises and inverts it.
using CrcFunction = std::uint32_t (*)(std::uint32_t state, std::byte* destination,
                                      const std::byte* source, std::size_t size);

/// One implementation of one kind of integrity word; the functions of the other kind are null.
struct IntegrityKernels {
  const char* name;
  IntegrityKind kind;
  bool (*runs_here)();
  NhFunction nh;
  NhFunction nh_copy;
  EncryptFunction encrypt;
  CrcFunction crc;
  CrcFunction crc_copy;
};

/// The implementations of a kind, fastest first; the last one runs on every processor.
std::span<const IntegrityKernels> nh_kernels();
std::span<const IntegrityKernels> crc_kernels();

template <typename Word>
Word load_word(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

}  // namespace tutti::wire
