// A bitmap that several threads read. Each word is written either by one thread alone (`set`) or by
// any thread (the functions with `atomic` in the name). A thread that finds a bit set also sees all
// earlier writes of the thread that set the bit.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/bits.hpp"

namespace tutti {

/// A fixed number of bits, initially clear.
class SharedBitmap {
 public:
  SharedBitmap() = default;
  explicit SharedBitmap(std::size_t bits)
      : words_(std::make_unique<std::atomic<std::uint64_t>[]>((bits + 63) / 64)) {}

  bool test(std::uint32_t bit) const { return (word(bit / 64) >> (bit % 64) & 1) != 0; }
  /// Sets a bit of a word that no other thread writes; returns true if the bit was clear before.
  bool set(std::uint32_t bit) {
    const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
    const std::uint64_t before = words_[bit / 64].load(std::memory_order_relaxed);
    words_[bit / 64].store(before | mask, std::memory_order_release);
    return (before & mask) == 0;
  }
  /// Sets a bit of a word that other threads may write; returns true if the bit was clear before.
  bool set_atomic(std::uint32_t bit) {
    const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
    return (words_[bit / 64].fetch_or(mask, std::memory_order_acq_rel) & mask) == 0;
  }
  void clear_atomic(std::uint32_t bit) {
    words_[bit / 64].fetch_and(~(std::uint64_t{1} << (bit % 64)), std::memory_order_acq_rel);
  }
  /// Sets the bits of a range within one word; returns how many of them were clear before.
  std::uint32_t set_word_atomic(Range within) {
    const std::uint64_t mask = bits::mask(within.first, within.last);
    const std::uint64_t before =
        words_[within.first / 64].fetch_or(mask, std::memory_order_acq_rel);
    return static_cast<std::uint32_t>(std::popcount(mask & ~before));
  }

  /// The first run of clear bits within `within`; empty if all are set. The run may include bits
  /// that another thread sets concurrently.
  Range first_clear_run(Range within) const {
    const std::uint32_t first = find(within, 0);
    // The run must not be empty. The search for its end therefore skips the first bit, which
    // another thread may have set meanwhile.
    return {first, find({std::min(first + 1, within.last), within.last}, ~std::uint64_t{0})};
  }

 private:
  std::uint64_t word(std::size_t at) const { return words_[at].load(std::memory_order_acquire); }
  std::uint32_t find(Range within, std::uint64_t wanted_is_set) const {
    return bits::find(within, wanted_is_set, [this](std::size_t at) { return word(at); });
  }

  std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
};

}  // namespace tutti
