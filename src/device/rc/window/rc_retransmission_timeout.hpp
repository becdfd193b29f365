// The retransmission timeout of one direction (RFC 6298): the smoothed round trip plus four
// deviations, doubled by each timeout until an ACK arrives.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::device::rc {

class RetransmissionTimeout {
 public:
  struct Limits {
    Nanoseconds min{};
    Nanoseconds first_max{};  ///< upper limit of the timeout before it is doubled
    Nanoseconds max{};
  };

  explicit RetransmissionTimeout(const Limits& limits) : limits_(limits) {}

  void sample(Nanoseconds round_trip) {
    if (round_trip_.count() == 0) {
      round_trip_ = round_trip;
      variation_ = round_trip / 2;
      return;
    }
    const Nanoseconds difference =
        round_trip > round_trip_ ? round_trip - round_trip_ : round_trip_ - round_trip;
    variation_ += (difference - variation_) / 4;
    round_trip_ += (round_trip - round_trip_) / 8;
  }
  void expired() { ++in_a_row_; }
  /// Ends the doubling of the timeout, because a new acknowledgement has arrived.
  void restart() { in_a_row_ = 0; }

  Nanoseconds current() const {
    const Nanoseconds base =
        std::clamp(round_trip_ + 4 * variation_, limits_.min, limits_.first_max);
    return std::min(base * (std::int64_t{1} << std::min(in_a_row_, kMaxDoublings)), limits_.max);
  }
  /// Time after which a frame counts as lost if a frame sent later has arrived.
  Nanoseconds reorder_time() const {
    if (round_trip_.count() == 0) return limits_.min;
    return std::min(round_trip_ + round_trip_ / 4, limits_.first_max / 2) + kReorderTime;
  }
  Nanoseconds smoothed_round_trip() const { return round_trip_; }
  std::uint32_t in_a_row() const { return in_a_row_; }

 private:
  static constexpr std::uint32_t kMaxDoublings = 16;
  static constexpr Nanoseconds kReorderTime{50'000};

  Limits limits_;
  Nanoseconds round_trip_{0};  ///< smoothed round trip; 0 before the first sample
  Nanoseconds variation_{0};
  std::uint32_t in_a_row_ = 0;  ///< timeouts since the last new acknowledgement
};

}  // namespace tutti::device::rc
