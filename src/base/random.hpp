// Seeded random numbers, computed by a mix function from a counter or from coordinates. A draw at
// one coordinate never changes the draws at other coordinates.
#pragma once

#include <cstdint>

namespace tutti {

/// The step and the finaliser of SplitMix64, a bijection in which each input bit affects all output
/// bits.
constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9e37'79b9'7f4a'7c15u;
  value = (value ^ (value >> 30)) * 0xbf58'476d'1ce4'e5b9u;
  value = (value ^ (value >> 27)) * 0x94d0'49bb'1331'11ebu;
  return value ^ (value >> 31);
}

/// A random number determined by a seed and up to three coordinates.
constexpr std::uint64_t draw(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0,
                             std::uint64_t c = 0) {
  return mix(mix(mix(mix(seed) ^ a) ^ b) ^ c);
}

/// A stream of random numbers, determined by its seed.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) : state_(seed) {}
  constexpr std::uint64_t next() { return mix(state_++); }
  /// A random number in [0, bound), uniform except for the bias of a modulo; 0 if `bound` is 0.
  constexpr std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  /// Returns true with the given probability in parts per million.
  constexpr bool chance_ppm(std::uint64_t ppm) { return below(1'000'000) < ppm; }

 private:
  std::uint64_t state_;
};

}  // namespace tutti
