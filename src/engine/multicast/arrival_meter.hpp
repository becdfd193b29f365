// Measures how fast the blocks of one Allgather arrive, for this rank's rate vote.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::engine {

class ArrivalMeter {
 public:
  /// `in_turns` means that one rank sends at a time, so that each block is measured alone.
  ArrivalMeter(std::uint32_t blocks, bool in_turns) : in_turns_(in_turns), rates_(blocks) {}

  /// Records the arrival of a chunk; `first` is true for the first chunk of its block.
  void arrived(Instant now, std::uint32_t block_index, std::uint64_t bytes, bool first) {
    if (since_ == Instant{} || (in_turns_ && first)) {
      since_ = last_ = now;
      bytes_ = 0;
      return;
    }
    // All chunks of the first batch have the same arrival time, so they yield no rate.
    if (now == since_) return;
    bytes_ += bytes;
    last_ = now;
    if (in_turns_ && bytes_ >= kMeasuredBytes) rates_[block_index] = rate(bytes_, now - since_);
  }
  /// The measured rate in bytes per second; 0 if too few bytes have arrived. If ranks send in
  /// turns, this is the median of the blocks' rates, otherwise the rate of all blocks together.
  std::uint64_t bytes_per_second() const {
    if (!in_turns_) return bytes_ < kMeasuredBytes ? 0 : rate(bytes_, last_ - since_);
    std::vector<std::uint64_t> measured = rates_;
    std::erase(measured, 0);
    if (measured.empty()) return 0;
    const auto middle = measured.begin() + static_cast<std::ptrdiff_t>(measured.size() / 2);
    std::nth_element(measured.begin(), middle, measured.end());
    return *middle;
  }
  /// The time over which `bytes_per_second` was measured; meaningful only if the ranks do not send
  /// in turns.
  Nanoseconds measured_time() const { return last_ - since_; }
  static std::uint64_t rate(std::uint64_t bytes, Nanoseconds time) {
    if (time.count() <= 0) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(bytes) * 1e9 /
                                      static_cast<double>(time.count()));
  }

 private:
  static constexpr std::uint64_t kMeasuredBytes = 96 * 1024;

  bool in_turns_;
  Instant since_{};
  Instant last_{};
  std::uint64_t bytes_ = 0;
  /// Arrival rate of each block in bytes per second; 0: not measured.
  std::vector<std::uint64_t> rates_;
};

}  // namespace tutti::engine
