// CRC-32C (Castagnoli, reflected), with optional copying of the bytes in the same pass.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>

#include "wire/integrity_kernels.hpp"

namespace tutti::wire {
namespace {

// Generator polynomial of CRC-32C, in reflected form.
constexpr std::uint32_t kPolynomial = 0x82f6'3b78;

/// Multiplies a remainder by x. The top coefficient of a reflected polynomial is its lowest bit.
constexpr std::uint32_t times_x(std::uint32_t remainder) {
  return (remainder >> 1) ^ ((remainder & 1) != 0 ? kPolynomial : 0);
}

using ByteTable = std::array<std::uint32_t, 256>;

/// Table d contains, for each byte, the CRC remainder of that byte followed by d zero bytes.
constexpr std::array<ByteTable, 8> make_byte_tables() {
  std::array<ByteTable, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (ByteTable& table : tables) {
      for (int bit = 0; bit < 8; ++bit) remainder = times_x(remainder);
      table[byte] = remainder;
    }
  }
  return tables;
}

constexpr std::array<ByteTable, 8> kByteTables = make_byte_tables();

std::uint32_t advance_byte(std::uint32_t state, std::byte byte) {
  return (state >> 8) ^ kByteTables[0][(state ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
}

template <bool kCopy>
std::uint32_t crc_portable(std::uint32_t state, std::byte* destination, const std::byte* source,
                           std::size_t size) {
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= size; at += sizeof(std::uint64_t)) {
    const auto word = load_word<std::uint64_t>(source + at);
    if constexpr (kCopy) std::memcpy(destination + at, &word, sizeof word);
    const std::uint64_t mixed = word ^ state;
    state = 0;
    for (unsigned byte = 0; byte < 8; ++byte) {
      state ^= kByteTables[7 - byte][(mixed >> (8 * byte)) & 0xff];
    }
  }
  for (; at < size; ++at) {
    if constexpr (kCopy) destination[at] = source[at];
    state = advance_byte(state, source[at]);
  }
  return state;
}

bool always() { return true; }

#if defined(__x86_64__)

constexpr std::size_t kLaneUnit = sizeof(__m128i);
constexpr std::size_t kMaximumLaneBytes = 1024;

/// Multiplication of a remainder by entry u appends 16u zero bytes. The entry is x^(8 * 16u - 33)
/// modulo the polynomial; the -33 cancels the factor x^33 that the carry-less product and the crc32
/// instruction together add.
constexpr auto make_shifts() {
  std::array<std::uint32_t, 2 * kMaximumLaneBytes / kLaneUnit + 1> shifts{};
  std::uint32_t power = 0x8000'0000;  // the constant polynomial 1, in reflected form
  for (int exponent = 0; exponent < 8 * 16 - 33; ++exponent) power = times_x(power);
  for (std::size_t units = 1; units < shifts.size(); ++units) {
    shifts[units] = power;
    for (std::size_t bit = 0; bit < 8 * kLaneUnit; ++bit) power = times_x(power);
  }
  return shifts;
}

constexpr auto kShifts = make_shifts();

bool has_crc32() { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"); }

__attribute__((target("sse4.2,pclmul"))) std::uint64_t append_zeros(std::uint64_t state,
                                                                    std::size_t size) {
  const __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(state)),
                           _mm_cvtsi32_si128(static_cast<int>(kShifts[size / kLaneUnit])), 0);
  return _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(product)));
}

template <bool kCopy>
__attribute__((target("sse4.2"), always_inline)) inline std::uint64_t advance_unit(
    std::uint64_t state, std::byte* destination, const std::byte* source, std::size_t at) {
  if constexpr (kCopy) {
    const __m128i unit = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + at));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + at), unit);
  }
  state = _mm_crc32_u64(state, load_word<std::uint64_t>(source + at));
  return _mm_crc32_u64(state, load_word<std::uint64_t>(source + at + sizeof(std::uint64_t)));
}

// Computes the CRCs of three consecutive lanes of `lane` bytes at once, because the crc32
// instruction has a latency of three cycles but can start in each cycle.
template <bool kCopy>
__attribute__((target("sse4.2,pclmul"))) std::uint64_t crc_lanes(std::uint64_t state,
                                                                 std::byte* destination,
                                                                 const std::byte* source,
                                                                 std::size_t begin,
                                                                 std::size_t lane) {
  std::uint64_t middle = 0;
  std::uint64_t last = 0;
  for (std::size_t at = begin; at < begin + lane; at += kLaneUnit) {
    state = advance_unit<kCopy>(state, destination, source, at);
    middle = advance_unit<kCopy>(middle, destination, source, lane + at);
    last = advance_unit<kCopy>(last, destination, source, 2 * lane + at);
  }
  return append_zeros(state, 2 * lane) ^ append_zeros(middle, lane) ^ last;
}

template <bool kCopy>
__attribute__((target("sse4.2,pclmul"))) std::uint32_t crc_sse42(std::uint32_t state32,
                                                                 std::byte* destination,
                                                                 const std::byte* source,
                                                                 std::size_t size) {
  // Smallest size in bytes at which three lanes are faster than one. For fewer bytes, combining the
  // CRCs of the lanes costs more time than the lanes save.
  constexpr std::size_t kWorthLanes = 12 * kLaneUnit;
  std::uint64_t state = state32;
  std::size_t at = 0;
  while (size - at >= kWorthLanes) {
    const std::size_t lane = std::min((size - at) / 3 / kLaneUnit * kLaneUnit, kMaximumLaneBytes);
    state = crc_lanes<kCopy>(state, destination, source, at, lane);
    at += 3 * lane;
  }
  for (; at + kLaneUnit <= size; at += kLaneUnit) {
    state = advance_unit<kCopy>(state, destination, source, at);
  }
  auto result = static_cast<std::uint32_t>(state);
  for (; at < size; ++at) {
    if constexpr (kCopy) destination[at] = source[at];
    result = _mm_crc32_u8(result, std::to_integer<std::uint8_t>(source[at]));
  }
  return result;
}

#endif  // __x86_64__

constexpr IntegrityKernels crc_implementation(const char* name, bool (*runs_here)(),
                                              CrcFunction crc, CrcFunction crc_copy) {
  return {name, IntegrityKind::crc32c, runs_here, nullptr, nullptr, nullptr, crc, crc_copy};
}

constexpr IntegrityKernels kImplementations[] = {
#if defined(__x86_64__)
    crc_implementation("crc32c/sse4.2", has_crc32, crc_sse42<false>, crc_sse42<true>),
#endif
    crc_implementation("crc32c/portable", always, crc_portable<false>, crc_portable<true>),
};

}  // namespace

std::span<const IntegrityKernels> crc_kernels() { return kImplementations; }

}  // namespace tutti::wire
