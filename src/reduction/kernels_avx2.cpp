// Reduction kernels for registers of 32 bytes. This file is compiled for AVX2, FMA and F16C; on a
// processor without these only runs_here may be called.
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include "reduction/kernels_bfloat_sum.hpp"

namespace tutti::reduction {
namespace {

struct Avx2 {
  static constexpr std::size_t kBytes = 32;
  using Reals = Register<float, kBytes>;

  static Reals widen_half(const std::byte* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static void narrow_half(std::byte* to, const Reals& value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
  static Reals round_to_half(const Reals& value) {
    return _mm256_cvtph_ps(_mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
  static Reals multiply_add(const Reals& a, const Reals& b, const Reals& c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  static bool any_word_is(const Register<std::uint16_t, kBytes>& words, std::uint16_t word) {
    return _mm256_movemask_epi8(_mm256_cmpeq_epi16(
               same_bits<__m256i>(words), _mm256_set1_epi16(static_cast<short>(word)))) != 0;
  }
};

template <Operation kOperation, ElementType kType>
using Fold = FoldOf<Avx2, kOperation, kType>;
template <ElementType kType>
using Single = VectorSingle<Avx2, kType>;

bool runs_here() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
         (ecx & bit_F16C) != 0 && (ecx & bit_FMA) != 0;
}

constexpr KernelTable kTable = KernelTableMaker<Fold, Single>::make("avx2", runs_here);

}  // namespace

const KernelTable& avx2_kernels() { return kTable; }

}  // namespace tutti::reduction
#endif
