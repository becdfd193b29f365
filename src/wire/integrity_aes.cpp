// AES-128 of one block, the last step of the keyed tag (FIPS 197).
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <array>
#include <bit>

#include "wire/integrity_kernels.hpp"

namespace tutti::wire {
namespace {

constexpr std::size_t kKeyWords = 4;

constexpr std::uint8_t times_x(std::uint8_t value) {
  return static_cast<std::uint8_t>((value << 1) ^ ((value & 0x80) != 0 ? 0x1b : 0));
}

/// The substitution box of AES: the inverse in GF(2^8), then an affine map. `element` runs through
/// all powers of 3 and `inverse` through all powers of 1/3, so they are always inverse to each
/// other.
constexpr std::array<std::uint8_t, 256> make_substitution() {
  std::array<std::uint8_t, 256> table{};
  std::uint8_t element = 1;
  std::uint8_t inverse = 1;
  do {
    element = static_cast<std::uint8_t>(element ^ times_x(element));
    for (const int shift : {1, 2, 4}) {
      inverse = static_cast<std::uint8_t>(inverse ^ (inverse << shift));
    }
    if ((inverse & 0x80) != 0) inverse ^= 0x09;
    table[element] =
        static_cast<std::uint8_t>(inverse ^ std::rotl(inverse, 1) ^ std::rotl(inverse, 2) ^
                                  std::rotl(inverse, 3) ^ std::rotl(inverse, 4) ^ 0x63);
  } while (element != 1);
  table[0] = 0x63;
  return table;
}

constexpr std::array<std::uint8_t, 256> kSubstitution = make_substitution();

/// Returns four substituted bytes as a column. The byte of row r comes from column `column` + r,
/// which is the row shift of AES.
std::uint32_t substitute_shifted(const std::array<std::uint32_t, 4>& columns, std::size_t column) {
  std::uint32_t result = 0;
  for (std::size_t row = 0; row < 4; ++row) {
    const std::uint32_t word = columns[(column + row) % 4];
    result |= std::uint32_t{kSubstitution[(word >> (8 * row)) & 0xff]} << (8 * row);
  }
  return result;
}

std::uint32_t mix_column(std::uint32_t column) {
  const std::uint32_t doubled =
      ((column & 0x7f7f'7f7f) << 1) ^ (((column >> 7) & 0x0101'0101) * 0x1b);
  return doubled ^ std::rotr(doubled ^ column, 8) ^ std::rotr(column, 16) ^ std::rotr(column, 24);
}

}  // namespace

Block aes_encrypt_portable(const AesKey& key, Block block) {
  auto columns = std::bit_cast<std::array<std::uint32_t, 4>>(block);
  for (std::size_t round = 0; round <= kAesRounds; ++round) {
    std::array<std::uint32_t, 4> next = columns;
    for (std::size_t i = 0; i < 4 && round > 0; ++i) {
      next[i] = substitute_shifted(columns, i);
      if (round < kAesRounds) next[i] = mix_column(next[i]);
    }
    for (std::size_t i = 0; i < 4; ++i) next[i] ^= key.rounds[4 * round + i];
    columns = next;
  }
  return std::bit_cast<Block>(columns);
}

#if defined(__x86_64__)

// SSE4.1 is used only to move words directly between general and vector registers. A path through
// memory would stall for more than half the time of an encryption.
__attribute__((target("aes,sse4.1"))) Block aes_encrypt_aesni(const AesKey& key, Block block) {
  const auto* const rounds = reinterpret_cast<const __m128i*>(key.rounds.data());
  __m128i state = _mm_cvtsi64_si128(static_cast<long long>(block.first));
  state = _mm_insert_epi64(state, static_cast<long long>(block.second), 1);
  state = _mm_xor_si128(state, rounds[0]);
#pragma GCC unroll 9
  for (std::size_t i = 1; i < kAesRounds; ++i) state = _mm_aesenc_si128(state, rounds[i]);
  state = _mm_aesenclast_si128(state, rounds[kAesRounds]);
  return {static_cast<std::uint64_t>(_mm_cvtsi128_si64(state)),
          static_cast<std::uint64_t>(_mm_extract_epi64(state, 1))};
}

#endif  // __x86_64__

AesKey expand_aes_key(std::span<const std::byte, kAesKeyBytes> key) {
  AesKey expanded;
  std::memcpy(expanded.rounds.data(), key.data(), kAesKeyBytes);
  std::uint8_t round_constant = 1;
  for (std::size_t i = kKeyWords; i < expanded.rounds.size(); ++i) {
    std::uint32_t word = expanded.rounds[i - 1];
    if (i % kKeyWords == 0) {
      const std::uint32_t turned = std::rotr(word, 8);
      word = substitute_shifted({turned, turned, turned, turned}, 0) ^ round_constant;
      round_constant = times_x(round_constant);
    }
    expanded.rounds[i] = expanded.rounds[i - kKeyWords] ^ word;
  }
  return expanded;
}

}  // namespace tutti::wire
