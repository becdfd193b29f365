// The pads of UMAC: AES-128 of one block, by libcrypto or by the processor's own instructions.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <bit>

#include "wire/integrity_kernels.hpp"

namespace tutti::wire {

Block pad_by_libcrypto(const PadKey& key, Block block) {
  return std::bit_cast<Block>(
      key.cipher->encrypt(std::bit_cast<crypto::BlockCipher::Block>(block)));
}

#if defined(__x86_64__)

namespace {

__m128i* round_keys(PadKey& key) { return reinterpret_cast<__m128i*>(key.rounds.data()); }

// One step of the key schedule of FIPS 197, with its round constant.
template <int kConstant>
__attribute__((target("aes"))) __m128i next_round_key(__m128i key) {
  const __m128i word = _mm_shuffle_epi32(_mm_aeskeygenassist_si128(key, kConstant), 0xff);
  key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
  key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
  return _mm_xor_si128(key, word);
}

template <int... kConstants>
__attribute__((target("aes"))) void expand_by_aesni(__m128i* rounds) {
  ((rounds[1] = next_round_key<kConstants>(rounds[0]), ++rounds), ...);
}

}  // namespace

// SSE4.1 is used only to move words directly between general and vector registers. Moving them
// through memory would stall the processor for more than half the time of an encryption.
__attribute__((target("aes,sse4.1"))) Block pad_by_aesni(const PadKey& key, Block block) {
  const auto* const rounds = reinterpret_cast<const __m128i*>(key.rounds.data());
  __m128i state = _mm_cvtsi64_si128(static_cast<long long>(block.first));
  state = _mm_insert_epi64(state, static_cast<long long>(block.second), 1);
  state = _mm_xor_si128(state, rounds[0]);
#pragma GCC unroll 9
  for (std::size_t i = 1; i < PadKey::kRounds; ++i) state = _mm_aesenc_si128(state, rounds[i]);
  state = _mm_aesenclast_si128(state, rounds[PadKey::kRounds]);
  return {static_cast<std::uint64_t>(_mm_cvtsi128_si64(state)),
          static_cast<std::uint64_t>(_mm_extract_epi64(state, 1))};
}

#endif  // __x86_64__

void expand_pad_key(std::span<const std::byte, crypto::BlockCipher::kBytes> key, PadKey& to) {
  std::memcpy(to.rounds.data(), key.data(), key.size());
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("aes")) return;
  expand_by_aesni<0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36>(round_keys(to));
#endif
}

}  // namespace tutti::wire
