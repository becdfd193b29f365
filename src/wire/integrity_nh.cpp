// NH, the first layer of UMAC, in two streams whose keys are shifted by one unit (RFC 4418, 5.2).
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "wire/integrity_kernels.hpp"

namespace tutti::wire {
namespace {

bool always() { return true; }

template <bool kCopy>
Block nh_portable(const NhKey& key, std::size_t first, std::byte* destination,
                  const std::byte* source, std::size_t groups) {
  Block sum;
  for (std::size_t i = 0; i < groups; ++i) {
    add_group(sum, key, first + i, source + kNhGroupBytes * i);
  }
  if constexpr (kCopy) std::memcpy(destination, source, kNhGroupBytes * groups);
  return sum;
}

#if defined(__x86_64__)

#define TUTTI_VECTOR(isa) __attribute__((target(isa), always_inline)) inline

template <int kBits>
struct Register;
template <>
struct Register<128> {
  using Type = __m128i;
};
template <>
struct Register<256> {
  using Type = __m256i;
};
template <>
struct Register<512> {
  using Type = __m512i;
};

// Sums of the products of words, for both hash streams. Members with `_odd` sum products of words
// with odd index, and the others sum products of words with even index.
template <int kBits>
struct Sums {
  typename Register<kBits>::Type first;
  typename Register<kBits>::Type first_odd;
  typename Register<kBits>::Type second;
  typename Register<kBits>::Type second_odd;
};

template <int kBits>
struct Operands {
  typename Register<kBits>::Type low;   // message: first units of consecutive groups
  typename Register<kBits>::Type high;  // message: second units of consecutive groups
  typename Register<kBits>::Type even;  // key units that stream 1 adds to `low`
  // Key units that stream 1 adds to `high`, and stream 2 to `low`.
  typename Register<kBits>::Type odd;
  typename Register<kBits>::Type shifted;  // key units that stream 2 adds to `high`
};

const __m128i* lanes128(const void* from) { return static_cast<const __m128i*>(from); }

void add_products128(Sums<128>& to, const Operands<128>& of) {
  const auto add = [](__m128i& even, __m128i& odd, __m128i a, __m128i b) {
    even = _mm_add_epi64(even, _mm_mul_epu32(a, b));
    odd = _mm_add_epi64(odd, _mm_mul_epu32(_mm_srli_epi64(a, 32), _mm_srli_epi64(b, 32)));
  };
  add(to.first, to.first_odd, _mm_add_epi32(of.low, of.even), _mm_add_epi32(of.high, of.odd));
  add(to.second, to.second_odd, _mm_add_epi32(of.low, of.odd), _mm_add_epi32(of.high, of.shifted));
}

Block words128(__m128i lanes) {
  return {static_cast<std::uint64_t>(_mm_cvtsi128_si64(lanes)),
          static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(lanes, lanes)))};
}

Block total128(const Sums<128>& of) {
  const __m128i first = _mm_add_epi64(of.first, of.first_odd);
  const __m128i second = _mm_add_epi64(of.second, of.second_odd);
  return words128(
      _mm_add_epi64(_mm_unpacklo_epi64(first, second), _mm_unpackhi_epi64(first, second)));
}

template <bool kCopy>
Block nh_sse2(const NhKey& key, std::size_t first, std::byte* destination, const std::byte* source,
              std::size_t groups) {
  const std::uint32_t* even = key.even.data() + kNhUnitWords * first;
  const std::uint32_t* odd = key.odd.data() + kNhUnitWords * first;
  const __m128i zero = _mm_setzero_si128();
  Sums<128> sums{zero, zero, zero, zero};
  for (; groups > 0; --groups) {
    const __m128i low = _mm_loadu_si128(lanes128(source));
    const __m128i high = _mm_loadu_si128(lanes128(source) + 1);
    if constexpr (kCopy) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(destination), low);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(destination) + 1, high);
      destination += kNhGroupBytes;
    }
    add_products128(sums, {low, high, _mm_load_si128(lanes128(even)), _mm_load_si128(lanes128(odd)),
                           _mm_load_si128(lanes128(even) + 1)});
    source += kNhGroupBytes;
    even += kNhUnitWords;
    odd += kNhUnitWords;
  }
  return total128(sums);
}

bool has_aesni() { return __builtin_cpu_supports("aes") && __builtin_cpu_supports("sse4.1"); }

bool has_avx2() { return has_aesni() && __builtin_cpu_supports("avx2"); }

/// True if this processor has AVX-512 and does not lower its clock rate in 512-bit code. The early
/// AVX-512 processors, which lower it, lack VBMI2.
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi2");
}

TUTTI_VECTOR("avx2") __m256i load256(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

TUTTI_VECTOR("avx2")
void add_product256(__m256i& even, __m256i& odd, __m256i a, __m256i b) {
  even = _mm256_add_epi64(even, _mm256_mul_epu32(a, b));
  odd = _mm256_add_epi64(odd, _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32)));
}

TUTTI_VECTOR("avx2")
void add_products256(Sums<256>& to, const Operands<256>& of) {
  add_product256(to.first, to.first_odd, _mm256_add_epi32(of.low, of.even),
                 _mm256_add_epi32(of.high, of.odd));
  add_product256(to.second, to.second_odd, _mm256_add_epi32(of.low, of.odd),
                 _mm256_add_epi32(of.high, of.shifted));
}

TUTTI_VECTOR("avx2") Block words256(__m256i lanes) {
  return words128(_mm_add_epi64(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1)));
}

TUTTI_VECTOR("avx2") Block total256(const Sums<256>& of) {
  const __m256i first = _mm256_add_epi64(of.first, of.first_odd);
  const __m256i second = _mm256_add_epi64(of.second, of.second_odd);
  return words256(
      _mm256_add_epi64(_mm256_unpacklo_epi64(first, second), _mm256_unpackhi_epi64(first, second)));
}

template <bool kCopy>
__attribute__((target("avx2"))) Block nh_avx2(const NhKey& key, std::size_t first,
                                              std::byte* destination, const std::byte* source,
                                              std::size_t groups) {
  const std::uint32_t* even = key.even.data() + kNhUnitWords * first;
  const std::uint32_t* odd = key.odd.data() + kNhUnitWords * first;
  const __m256i zero = _mm256_setzero_si256();
  Sums<256> sums{zero, zero, zero, zero};
  for (; groups >= 2; groups -= 2) {
    const __m256i one = load256(source);
    const __m256i two = load256(source + kNhGroupBytes);
    if constexpr (kCopy) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination), one);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination) + 1, two);
      destination += 2 * kNhGroupBytes;
    }
    add_products256(
        sums, {_mm256_permute2x128_si256(one, two, 0x20), _mm256_permute2x128_si256(one, two, 0x31),
               load256(even), load256(odd), load256(even + kNhUnitWords)});
    source += 2 * kNhGroupBytes;
    even += 2 * kNhUnitWords;
    odd += 2 * kNhUnitWords;
  }
  Block sum = total256(sums);
  if (groups > 0) {
    add_group(sum, key, static_cast<std::size_t>(even - key.even.data()) / kNhUnitWords, source);
    if constexpr (kCopy) std::memcpy(destination, source, kNhGroupBytes);
  }
  return sum;
}

#define TUTTI_AVX512 "avx512f,avx512vl"

// Masked intrinsics are used with all lanes selected, because GCC 12 warns of uninitialised lanes
// in the unmasked intrinsics.
constexpr __mmask8 kAllLanes = 0xff;

TUTTI_VECTOR(TUTTI_AVX512) __m512i odd_words512(__m512i lanes) {
  return _mm512_maskz_srli_epi64(kAllLanes, lanes, 32);
}

TUTTI_VECTOR(TUTTI_AVX512) __m512i multiply512(__m512i a, __m512i b) {
  return _mm512_maskz_mul_epu32(kAllLanes, a, b);
}

TUTTI_VECTOR(TUTTI_AVX512)
void add_product512(__m512i& even, __m512i& odd, __m512i a, __m512i b) {
  even = _mm512_add_epi64(even, multiply512(a, b));
  odd = _mm512_add_epi64(odd, multiply512(odd_words512(a), odd_words512(b)));
}

TUTTI_VECTOR(TUTTI_AVX512)
void add_products512(Sums<512>& to, const Operands<512>& of) {
  add_product512(to.first, to.first_odd, _mm512_add_epi32(of.low, of.even),
                 _mm512_add_epi32(of.high, of.odd));
  add_product512(to.second, to.second_odd, _mm512_add_epi32(of.low, of.odd),
                 _mm512_add_epi32(of.high, of.shifted));
}

template <int kHalf>
TUTTI_VECTOR(TUTTI_AVX512)
__m256i half512(__m512i lanes) {
  return _mm512_maskz_extracti64x4_epi64(kAllLanes, lanes, kHalf);
}

TUTTI_VECTOR(TUTTI_AVX512) Block total512(const Sums<512>& of) {
  const __m512i first = _mm512_add_epi64(of.first, of.first_odd);
  const __m512i second = _mm512_add_epi64(of.second, of.second_odd);
  const __m512i sum = _mm512_add_epi64(_mm512_maskz_unpacklo_epi64(kAllLanes, first, second),
                                       _mm512_maskz_unpackhi_epi64(kAllLanes, first, second));
  return words256(_mm256_add_epi64(half512<0>(sum), half512<1>(sum)));
}

// Adds four groups: `one` contains the first two, `two` the last two.
TUTTI_VECTOR(TUTTI_AVX512)
void add_groups512(Sums<512>& to, __m512i one, __m512i two, __m512i even, __m512i odd,
                   __m512i shifted) {
  add_products512(to, {_mm512_maskz_shuffle_i64x2(kAllLanes, one, two, 0x88),
                       _mm512_maskz_shuffle_i64x2(kAllLanes, one, two, 0xdd), even, odd, shifted});
}

template <bool kCopy>
__attribute__((target(TUTTI_AVX512))) Block nh_avx512(const NhKey& key, std::size_t first,
                                                      std::byte* destination,
                                                      const std::byte* source, std::size_t groups) {
  const std::uint32_t* even = key.even.data() + kNhUnitWords * first;
  const std::uint32_t* odd = key.odd.data() + kNhUnitWords * first;
  const __m512i zero = _mm512_setzero_si512();
  Sums<512> sums{zero, zero, zero, zero};
  for (; groups >= 4; groups -= 4) {
    const __m512i one = _mm512_loadu_si512(source);
    const __m512i two = _mm512_loadu_si512(source + 64);
    if constexpr (kCopy) {
      _mm512_storeu_si512(destination, one);
      _mm512_storeu_si512(destination + 64, two);
      destination += 4 * kNhGroupBytes;
    }
    add_groups512(sums, one, two, _mm512_loadu_si512(even), _mm512_loadu_si512(odd),
                  _mm512_loadu_si512(even + kNhUnitWords));
    source += 4 * kNhGroupBytes;
    even += 4 * kNhUnitWords;
    odd += 4 * kNhUnitWords;
  }
  if (groups > 0) {
    // Lanes beyond the last group are loaded as zeros from message and key, so that their products
    // are zero.
    const auto words = (1u << (4 * groups)) - 1;
    const auto low = static_cast<__mmask8>(words);
    const auto high = static_cast<__mmask8>(words >> 8);
    const auto keys = static_cast<__mmask8>((1u << (2 * groups)) - 1);
    const __m512i one = _mm512_maskz_loadu_epi64(low, source);
    const __m512i two = _mm512_maskz_loadu_epi64(high, source + 64);
    if constexpr (kCopy) {
      _mm512_mask_storeu_epi64(destination, low, one);
      _mm512_mask_storeu_epi64(destination + 64, high, two);
    }
    add_groups512(sums, one, two, _mm512_maskz_loadu_epi64(keys, even),
                  _mm512_maskz_loadu_epi64(keys, odd),
                  _mm512_maskz_loadu_epi64(keys, even + kNhUnitWords));
  }
  return total512(sums);
}

#undef TUTTI_AVX512
#undef TUTTI_VECTOR

#endif  // __x86_64__

constexpr IntegrityKernels umac_implementation(const char* name, bool (*runs_here)(), NhFunction nh,
                                               NhFunction nh_copy, PadFunction pad) {
  return {name, IntegrityKind::keyed_tag, runs_here, nh, nh_copy, pad, nullptr, nullptr};
}

constexpr IntegrityKernels kImplementations[] = {
#if defined(__x86_64__)
    umac_implementation("umac/avx512", has_avx512, nh_avx512<false>, nh_avx512<true>, pad_by_aesni),
    umac_implementation("umac/avx2", has_avx2, nh_avx2<false>, nh_avx2<true>, pad_by_aesni),
    umac_implementation("umac/sse2", has_aesni, nh_sse2<false>, nh_sse2<true>, pad_by_aesni),
#endif
    umac_implementation("umac/portable", always, nh_portable<false>, nh_portable<true>,
                        pad_by_libcrypto),
};

}  // namespace

std::span<const IntegrityKernels> umac_kernels() { return kImplementations; }

}  // namespace tutti::wire
