// Conversions of 16-bit floats by integer arithmetic; every kernel must agree with them.
//
// Widening is exact. Narrowing rounds to nearest, ties to even. Values that are too large become
// infinity, denormals are kept, and every NaN becomes the positive NaN in which only the quiet bit
// is set.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti::reduction {

inline constexpr std::uint16_t kHalfNan = 0x7e00;
inline constexpr std::uint16_t kBfloatNan = 0x7fc0;
inline constexpr std::uint32_t kFloatNan = 0x7fc0'0000;
inline constexpr std::uint64_t kDoubleNan = 0x7ff8'0000'0000'0000;

constexpr float bfloat_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

constexpr std::uint16_t float_to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fff'ffff) > 0x7f80'0000) return kBfloatNan;
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

constexpr float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half} >> 15 << 31;
  const std::uint32_t exponent = half >> 10 & 0x1f;
  const std::uint32_t fraction = half & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f80'0000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

constexpr std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 31 << 15);
  const std::uint32_t magnitude = bits & 0x7fff'ffff;
  if (magnitude > 0x7f80'0000) return kHalfNan;
  // Magnitudes of 2^16 and above become infinity.
  if (magnitude >= 0x4780'0000) return sign | 0x7c00;
  if (magnitude >= 0x3880'0000) {  // the result is a normal number, or rounds up to infinity
    const std::uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return static_cast<std::uint16_t>(sign | (rounded - (112u << 23)) >> 13);
  }
  // Magnitudes below half of the smallest denormal become zero.
  if (magnitude < 0x3300'0000) return sign;
  const std::uint32_t shift = 126 - (magnitude >> 23);
  const std::uint32_t significand = (magnitude & 0x007f'ffff) | 0x0080'0000;
  const std::uint32_t kept = significand >> shift;
  const std::uint32_t rest = significand & ((1u << shift) - 1);
  const std::uint32_t tie = 1u << (shift - 1);
  const bool up = rest > tie || (rest == tie && (kept & 1) != 0);
  return static_cast<std::uint16_t>(sign | (kept + (up ? 1 : 0)));
}

}  // namespace tutti::reduction
