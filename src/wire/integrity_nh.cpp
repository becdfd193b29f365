// NH, the first step of the keyed tag: two passes with keys one group apart (see integrity.hpp).
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "wire/integrity_kernels.hpp"

namespace tutti::wire {
namespace {

bool always() { return true; }

template <bool kCopy>
Block nh_portable(const std::byte* key, std::byte* destination, const std::byte* source,
                  std::size_t groups) {
  const auto product = [](std::uint64_t pair, std::uint64_t pair_key) {
    const auto low = static_cast<std::uint32_t>(pair) + static_cast<std::uint32_t>(pair_key);
    const auto high =
        static_cast<std::uint32_t>(pair >> 32) + static_cast<std::uint32_t>(pair_key >> 32);
    return std::uint64_t{low} * high;
  };
  Block sum;
  for (std::size_t at = 0; at < groups * kNhGroupBytes; at += sizeof(std::uint64_t)) {
    const auto pair = load_word<std::uint64_t>(source + at);
    if constexpr (kCopy) std::memcpy(destination + at, &pair, sizeof pair);
    sum.first += product(pair, load_word<std::uint64_t>(key + at));
    sum.second += product(pair, load_word<std::uint64_t>(key + at + kNhGroupBytes));
  }
  return sum;
}

#if defined(__x86_64__)

const __m128i* lanes128(const std::byte* from) { return reinterpret_cast<const __m128i*>(from); }

__m128i multiply_pairs128(__m128i keyed) { return _mm_mul_epu32(keyed, _mm_srli_epi64(keyed, 32)); }

std::uint64_t sum_lanes128(__m128i lanes) {
  const __m128i sum = _mm_add_epi64(lanes, _mm_unpackhi_epi64(lanes, lanes));
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(sum));
}

template <bool kCopy>
Block nh_sse2(const std::byte* key, std::byte* destination, const std::byte* source,
              std::size_t groups) {
  __m128i first = _mm_setzero_si128();
  __m128i second = _mm_setzero_si128();
  for (std::size_t at = 0; at < groups * kNhGroupBytes; at += sizeof(__m128i)) {
    const __m128i words = _mm_loadu_si128(lanes128(source + at));
    if constexpr (kCopy) _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + at), words);
    const __m128i first_keyed = _mm_add_epi32(words, _mm_load_si128(lanes128(key + at)));
    const __m128i second_keyed =
        _mm_add_epi32(words, _mm_load_si128(lanes128(key + at + kNhGroupBytes)));
    first = _mm_add_epi64(first, multiply_pairs128(first_keyed));
    second = _mm_add_epi64(second, multiply_pairs128(second_keyed));
  }
  return {sum_lanes128(first), sum_lanes128(second)};
}

bool has_aesni() { return __builtin_cpu_supports("aes") && __builtin_cpu_supports("sse4.1"); }

bool has_avx2() { return has_aesni() && __builtin_cpu_supports("avx2"); }

#define TUTTI_AVX2 __attribute__((target("avx2"), always_inline)) inline

TUTTI_AVX2 const __m256i* lanes256(const std::byte* from) {
  return reinterpret_cast<const __m256i*>(from);
}

TUTTI_AVX2 __m256i keyed_products(__m256i words, const __m256i* key) {
  const __m256i keyed = _mm256_add_epi32(words, _mm256_load_si256(key));
  return _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
}

TUTTI_AVX2 std::uint64_t sum_lanes256(__m256i lanes) {
  return sum_lanes128(
      _mm_add_epi64(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1)));
}

// Adds both NH passes over one group to the sums `first` and `second`.
template <bool kCopy>
TUTTI_AVX2 void add_group(__m256i& first, __m256i& second, const std::byte* key,
                          std::byte* destination, const std::byte* source, std::size_t at) {
  const __m256i words = _mm256_loadu_si256(lanes256(source + at));
  if constexpr (kCopy) _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination + at), words);
  first = _mm256_add_epi64(first, keyed_products(words, lanes256(key + at)));
  second = _mm256_add_epi64(second, keyed_products(words, lanes256(key + at + kNhGroupBytes)));
}

#undef TUTTI_AVX2

// Each iteration takes four groups with two pairs of sums, so that no addition waits for the one
// before it.
template <bool kCopy>
__attribute__((target("avx2"))) Block nh_avx2(const std::byte* key, std::byte* destination,
                                              const std::byte* source, std::size_t groups) {
  __m256i first = _mm256_setzero_si256();
  __m256i second = _mm256_setzero_si256();
  __m256i first_odd = first;
  __m256i second_odd = second;
  const std::size_t size = groups * kNhGroupBytes;
  std::size_t at = 0;
  for (const std::size_t turns = groups / 4 * 4 * kNhGroupBytes; at != turns;
       at += 4 * kNhGroupBytes) {
    add_group<kCopy>(first, second, key, destination, source, at);
    add_group<kCopy>(first_odd, second_odd, key, destination, source, at + kNhGroupBytes);
    add_group<kCopy>(first, second, key, destination, source, at + 2 * kNhGroupBytes);
    add_group<kCopy>(first_odd, second_odd, key, destination, source, at + 3 * kNhGroupBytes);
  }
  for (; at != size; at += kNhGroupBytes) {
    add_group<kCopy>(first, second, key, destination, source, at);
  }
  return {sum_lanes256(_mm256_add_epi64(first, first_odd)),
          sum_lanes256(_mm256_add_epi64(second, second_odd))};
}

#endif  // __x86_64__

constexpr IntegrityKernels nh_implementation(const char* name, bool (*runs_here)(), NhFunction nh,
                                             NhFunction nh_copy, EncryptFunction encrypt) {
  return {name, IntegrityKind::keyed_tag, runs_here, nh, nh_copy, encrypt, nullptr, nullptr};
}

constexpr IntegrityKernels kImplementations[] = {
#if defined(__x86_64__)
    nh_implementation("nh/avx2", has_avx2, nh_avx2<false>, nh_avx2<true>, aes_encrypt_aesni),
    nh_implementation("nh/sse2", has_aesni, nh_sse2<false>, nh_sse2<true>, aes_encrypt_aesni),
#endif
    nh_implementation("nh/portable", always, nh_portable<false>, nh_portable<true>,
                      aes_encrypt_portable),
};

}  // namespace

std::span<const IntegrityKernels> nh_kernels() { return kImplementations; }

}  // namespace tutti::wire
