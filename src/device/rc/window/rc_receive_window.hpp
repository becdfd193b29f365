// The receive window of one peer: classifies sequence numbers as next, early, duplicate or beyond
// the window, and reports arrivals as a cumulative number and a bitmap (RFC 2018).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/circular.hpp"
#include "device/rc/rc_frame.hpp"

namespace tutti::device::rc {

class ReceiveWindow {
 public:
  enum class Arrival {
    next,       ///< the expected frame
    early,      ///< a frame after the expected one
    duplicate,  ///< a frame that has arrived before
    beyond,     ///< a frame whose number is beyond the window
  };

  explicit ReceiveWindow(std::uint32_t initial_sequence)
      : expected_(initial_sequence), end_(initial_sequence) {}

  Arrival classify(std::uint32_t sequence) const {
    if (sequence == expected_) return Arrival::next;
    if (circular_before(sequence, expected_)) return Arrival::duplicate;
    if (sequence - expected_ >= kRcReceiveWindowFrames) return Arrival::beyond;
    return received(sequence) ? Arrival::duplicate : Arrival::early;
  }
  /// Marks an early frame as arrived.
  void mark(std::uint32_t sequence) {
    words_[slot(sequence) / 64] |= std::uint64_t{1} << (sequence % 64);
    if (!circular_before(sequence, end_)) end_ = sequence + 1;
  }
  /// Moves the window past the expected frame, which has arrived.
  void advance() {
    words_[slot(expected_) / 64] &= ~(std::uint64_t{1} << (expected_ % 64));
    ++expected_;
    if (circular_before(end_, expected_)) end_ = expected_;
  }

  /// True if the frame with this number has arrived early. The number must lie within the window.
  bool received(std::uint32_t sequence) const {
    return (words_[slot(sequence) / 64] >> (sequence % 64) & 1) != 0;
  }
  /// The first missing sequence number.
  std::uint32_t expected() const { return expected_; }
  /// One past the highest sequence number that has arrived.
  std::uint32_t end() const { return end_; }
  /// True if a frame is missing and a later one has arrived.
  bool gap() const { return end_ != expected_; }

  /// Number of 64-bit words in the bitmap; 0 without a gap. The first bit stands for the sequence
  /// number expected() + 1.
  std::size_t word_count() const { return gap() ? (end_ - expected_ - 1 + 63) / 64 : 0; }
  std::uint64_t word(std::size_t index) const {
    const std::uint32_t first = expected_ + 1 + static_cast<std::uint32_t>(index) * 64;
    const std::uint32_t shift = first % 64;
    const std::uint64_t low = words_[slot(first) / 64] >> shift;
    if (shift == 0) return low;
    return low | words_[slot(first + 64) / 64] << (64 - shift);
  }

 private:
  static std::size_t slot(std::uint32_t sequence) { return sequence % kRcReceiveWindowFrames; }

  std::uint32_t expected_;
  std::uint32_t end_;
  std::array<std::uint64_t, kRcReceiveWindowFrames / 64> words_{};
};

}  // namespace tutti::device::rc
