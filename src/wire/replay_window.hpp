// Recognises datagrams that were received before, by the counters in their headers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti::wire {

/// The counters that have arrived from one sender in one stream: the greatest one, and one bit for
/// each of the kSize counters up to it, as in RFC 4303, 3.4.3. Counters begin at 1.
class ReplayWindow {
 public:
  static constexpr std::uint64_t kWordBits = 64;
  static constexpr std::uint64_t kWords = 32;
  /// Number of counters in the window, more than the frames that a connection can have in flight.
  /// The bitmap has one more word than the window, because advance() clears the whole word of the
  /// new greatest counter.
  static constexpr std::uint64_t kSize = (kWords - 1) * kWordBits;

  /// True if the counter is new: take() has not recorded it, and it is not older than the window.
  /// Otherwise the datagram must be dropped.
  bool fresh(std::uint64_t counter) const {
    if (counter > greatest_) return true;
    return counter != 0 && greatest_ - counter < kSize && (word(counter) & bit(counter)) == 0;
  }
  /// Records the counter of an authentic datagram; the counter must be fresh.
  void take(std::uint64_t counter) {
    if (counter > greatest_) advance(counter);
    words_[place(counter)] |= bit(counter);
  }

  /// The greatest counter that take() has recorded; 0 if there is none.
  std::uint64_t greatest() const { return greatest_; }

 private:
  static std::uint64_t bit(std::uint64_t counter) {
    return std::uint64_t{1} << counter % kWordBits;
  }
  static std::size_t place(std::uint64_t counter) { return counter / kWordBits % kWords; }
  std::uint64_t word(std::uint64_t counter) const { return words_[place(counter)]; }

  void advance(std::uint64_t counter) {
    const std::uint64_t first = greatest_ / kWordBits + 1;
    const std::uint64_t last = counter / kWordBits;
    if (last >= first + kWords) {
      words_ = {};
    } else {
      for (std::uint64_t one = first; one <= last; ++one) words_[one % kWords] = 0;
    }
    greatest_ = counter;
  }

  std::array<std::uint64_t, kWords> words_{};
  std::uint64_t greatest_ = 0;
};

}  // namespace tutti::wire
