// A bitmap stored in 64-bit words, with functions that set bits, test bits and find runs of clear
// bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace tutti {

/// A half-open run of indices [first, last).
struct Range {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  constexpr std::uint32_t size() const { return last - first; }
  constexpr bool empty() const { return first >= last; }
  friend constexpr bool operator==(Range, Range) = default;
};

namespace bits {

/// Returns a mask of the bits `from` to `to` - 1 of a bitmap, all of which must lie in one word.
constexpr std::uint64_t mask(std::uint32_t from, std::uint32_t to) {
  const std::uint64_t upper =
      to % 64 == 0 ? ~std::uint64_t{0} : (std::uint64_t{1} << (to % 64)) - 1;
  return upper & (~std::uint64_t{0} << (from % 64));
}

/// Returns the first bit in `within` that is clear (if `wanted_is_set` is 0) or set (if
/// `wanted_is_set` is ~0), or within.last if no bit matches. `word(i)` reads the i-th word of the
/// bitmap.
template <typename Word>
std::uint32_t find(Range within, std::uint64_t wanted_is_set, Word&& word) {
  for (std::uint32_t at = within.first; at < within.last;) {
    const std::uint32_t end = std::min(within.last, (at / 64 + 1) * 64);
    const std::uint64_t candidates =
        (wanted_is_set != 0 ? word(at / 64) : ~word(at / 64)) & mask(at, end);
    if (candidates != 0)
      return at / 64 * 64 + static_cast<std::uint32_t>(std::countr_zero(candidates));
    at = end;
  }
  return within.last;
}

}  // namespace bits

/// A fixed number of bits, initially clear. Used by one thread at a time.
class Bitmap {
 public:
  Bitmap() = default;
  explicit Bitmap(std::size_t bits) : words_((bits + 63) / 64) {}

  bool test(std::uint32_t bit) const { return (words_[bit / 64] >> (bit % 64) & 1) != 0; }
  /// Sets a bit; returns true if the bit was clear before.
  bool set(std::uint32_t bit) {
    const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
    const bool was_clear = (words_[bit / 64] & mask) == 0;
    words_[bit / 64] |= mask;
    return was_clear;
  }
  void clear(std::uint32_t bit) { words_[bit / 64] &= ~(std::uint64_t{1} << (bit % 64)); }

  /// The first run of clear bits within `within`; empty if all are set.
  Range first_clear_run(Range within) const {
    const std::uint32_t first = find(within, 0);
    return {first, find({first, within.last}, ~std::uint64_t{0})};
  }
  /// The first clear bit within `within`, or within.last.
  std::uint32_t first_clear(Range within) const { return find(within, 0); }
  std::uint32_t count(Range within) const {
    std::uint32_t set_bits = 0;
    for (std::uint32_t at = within.first; at < within.last;) {
      const std::uint32_t end = std::min(within.last, (at / 64 + 1) * 64);
      set_bits += static_cast<std::uint32_t>(std::popcount(words_[at / 64] & bits::mask(at, end)));
      at = end;
    }
    return set_bits;
  }

 private:
  std::uint32_t find(Range within, std::uint64_t wanted_is_set) const {
    return bits::find(within, wanted_is_set, [this](std::size_t at) { return words_[at]; });
  }

  std::vector<std::uint64_t> words_;
};

}  // namespace tutti
