// Internal to src/wire: the inner loops of Integrity, one set for each implementation.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "crypto/block_cipher.hpp"
#include "wire/integrity_kind.hpp"

namespace tutti::wire {

static_assert(std::endian::native == std::endian::little, "words are loaded as the wire has them");

template <typename Word>
Word load_word(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

/// 16 bytes as two words: a nonce, a pad, or the values of the two hash streams.
struct Block {
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  friend bool operator==(const Block&, const Block&) = default;
};

/// NH reads a message in groups. A group is two units of four 32-bit words; NH multiplies the words
/// of the first unit by those of the second.
inline constexpr std::size_t kNhUnitWords = 4;
inline constexpr std::size_t kNhGroupBytes = 32;
/// Size in bytes of an NH block, the input that one NH key covers.
inline constexpr std::size_t kNhBlockBytes = 1024;
inline constexpr std::size_t kNhBlockGroups = kNhBlockBytes / kNhGroupBytes;
/// Size in bytes of the NH key. It is 16 bytes longer than an NH block, because the second hash
/// stream uses the key from byte 16 on.
inline constexpr std::size_t kNhKeyBytes = kNhBlockBytes + 16;

/// The NH key, split into its units of even index and its units of odd index. Consecutive groups
/// use consecutive units of each array, so that one vector load fetches the units for several
/// groups.
struct NhKey {
  alignas(64) std::array<std::uint32_t, kNhUnitWords*(kNhBlockGroups + 1)> even{};
  alignas(64) std::array<std::uint32_t, kNhUnitWords * kNhBlockGroups> odd{};
};

/// Adds one group at `source` to the sums of both hash streams.
inline void add_group(Block& sum, const NhKey& key, std::size_t group, const std::byte* source) {
  const std::uint32_t* const even = key.even.data() + kNhUnitWords * group;
  const std::uint32_t* const odd = key.odd.data() + kNhUnitWords * group;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kNhUnitWords; ++i) {
    const auto low = load_word<std::uint32_t>(source + 4 * i);
    const auto high = load_word<std::uint32_t>(source + 4 * (kNhUnitWords + i));
    sum.first += std::uint64_t{low + even[i]} * (high + odd[i]);
    sum.second += std::uint64_t{low + odd[i]} * (high + even[kNhUnitWords + i]);
  }
}

/// Computes NH in both hash streams over `groups` whole groups at `source`. The first of them has
/// the index `first` in its NH block. The function `nh_copy` also copies the groups to
/// `destination`; `nh` ignores `destination`.
using NhFunction = Block (*)(const NhKey& key, std::size_t first, std::byte* destination,
                             const std::byte* source, std::size_t groups);

/// The AES key of the pads: as a cipher of libcrypto and, if the processor has AES instructions, as
/// round keys.
struct PadKey {
  static constexpr std::size_t kRounds = 10;

  std::unique_ptr<crypto::BlockCipher> cipher;
  alignas(16) std::array<std::uint64_t, 2 * (kRounds + 1)> rounds{};
};

/// Fills PadKey::rounds if this processor has AES instructions.
void expand_pad_key(std::span<const std::byte, crypto::BlockCipher::kBytes> key, PadKey& to);

/// Encrypts one block by AES-128.
using PadFunction = Block (*)(const PadKey& key, Block block);
Block pad_by_libcrypto(const PadKey& key, Block block);
#if defined(__x86_64__)
Block pad_by_aesni(const PadKey& key, Block block);
#endif

/// Advances a CRC-32C register over `size` bytes; the caller initialises the register and inverts
/// the result. `crc_copy` also copies the bytes to `destination`.
using CrcFunction = std::uint32_t (*)(std::uint32_t state, std::byte* destination,
                                      const std::byte* source, std::size_t size);

/// One implementation of one kind of integrity word. The functions that serve the other kind are
/// null.
struct IntegrityKernels {
  const char* name;
  IntegrityKind kind;
  bool (*runs_here)();
  NhFunction nh;
  NhFunction nh_copy;
  PadFunction pad;
  CrcFunction crc;
  CrcFunction crc_copy;
};

/// The implementations of a kind, fastest first; the last one runs on every processor.
std::span<const IntegrityKernels> umac_kernels();
std::span<const IntegrityKernels> crc_kernels();

}  // namespace tutti::wire
