// Reduction kernels for registers of 64 bytes. This file is compiled for AVX-512 F, BW, DQ and VL;
// on a processor without these only runs_here may be called.
#if defined(__x86_64__)
#include <immintrin.h>

#include "reduction/kernels_bfloat_sum.hpp"

namespace tutti::reduction {
namespace {

struct Avx512 {
  static constexpr std::size_t kBytes = 64;
  using Reals = Register<float, kBytes>;

  static Reals widen_half(const std::byte* from) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static void narrow_half(std::byte* to, const Reals& value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow(value));
  }
  static Reals round_to_half(const Reals& value) { return widen(narrow(value)); }
  static Reals multiply_add(const Reals& a, const Reals& b, const Reals& c) {
    return _mm512_fmadd_ps(a, b, c);
  }
  static bool any_word_is(const Register<std::uint16_t, kBytes>& words, std::uint16_t word) {
    return _mm512_cmpeq_epi16_mask(same_bits<__m512i>(words),
                                   _mm512_set1_epi16(static_cast<short>(word))) != 0;
  }

 private:
  // The conversions between float16 and float32 use the masked instruction with all lanes set,
  // because GCC 12 warns of an uninitialised operand in the unmasked one.
  static constexpr __mmask16 kAll = 0xffff;
  static Reals widen(__m256i halves) { return _mm512_maskz_cvtph_ps(kAll, halves); }
  static __m256i narrow(const Reals& value) {
    return _mm512_maskz_cvtps_ph(kAll, value, _MM_FROUND_TO_NEAREST_INT);
  }
};

template <Operation kOperation, ElementType kType>
using Fold = FoldOf<Avx512, kOperation, kType>;
template <ElementType kType>
using Single = VectorSingle<Avx512, kType>;

bool runs_here() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

constexpr KernelTable kTable = KernelTableMaker<Fold, Single>::make("avx512", runs_here);

}  // namespace

const KernelTable& avx512_kernels() { return kTable; }

}  // namespace tutti::reduction
#endif
