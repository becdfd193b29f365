// Extracts the digits of a key in some radix, lowest digit first.
#pragma once

#include <bit>
#include <cstdint>

namespace radix_sort {

/// The number of passes of a sort by digits, which is the number of digits of a key in this radix.
inline std::uint32_t passes_of(std::uint32_t radix, std::uint32_t key_bits) {
  std::uint64_t rest = UINT64_MAX >> (64 - key_bits);
  std::uint32_t passes = 0;
  for (; rest != 0; rest /= radix) ++passes;
  return passes;
}

/// Extracts one digit of a key by a shift, in a radix that is a power of two.
class ShiftedDigit {
 public:
  ShiftedDigit(std::uint32_t radix, std::uint32_t pass)
      : shift_(pass * static_cast<std::uint32_t>(std::countr_zero(radix))), mask_(radix - 1) {}
  std::uint32_t operator()(std::uint64_t key) const {
    return static_cast<std::uint32_t>(key >> shift_) & mask_;
  }

 private:
  std::uint32_t shift_;
  std::uint32_t mask_;
};

/// Extracts one digit of a key by division, in a radix that is no power of two. Computing in the
/// type `Key` avoids 64-bit divisions for 32-bit keys.
template <typename Key>
class DividedDigit {
 public:
  DividedDigit(std::uint32_t radix, std::uint32_t pass) : radix_(radix) {
    for (std::uint32_t i = 0; i < pass; ++i) unit_ = static_cast<Key>(unit_ * radix);
  }
  std::uint32_t operator()(Key key) const {
    return static_cast<std::uint32_t>(key / unit_ % radix_);
  }

 private:
  Key radix_;
  Key unit_ = 1;  ///< place value of the digit: the radix to the power of the digit's index
};

/// Calls `use` with the functor that extracts the digit with index `pass` from a key; the lowest
/// digit has index 0.
template <typename Key, typename Use>
void with_digit(std::uint32_t radix, std::uint32_t pass, const Use& use) {
  if (std::has_single_bit(radix)) {
    use(ShiftedDigit(radix, pass));
  } else {
    use(DividedDigit<Key>(radix, pass));
  }
}

}  // namespace radix_sort
