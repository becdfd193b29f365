// Bounds the offset between two clocks from requests and answers (Cristian's algorithm).
//
// An answer carries the time of the other clock at some moment after `sent` and before `received`,
// so the offset lies between (answer - received) and (answer - sent). Every exchange may narrow
// these bounds. They hold even if the request and the answer take different times.
#pragma once

#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::protocol {

class ClockBounds {
 public:
  /// Adds one exchange. `sent` and `received` are times of this rank's clock, `answer` is the time
  /// of the other clock.
  void add(Instant sent, Instant answer, Instant received);

  std::uint32_t exchanges() const { return exchanges_; }
  /// The estimated offset, the other clock minus this rank's clock: the middle of the bounds.
  Nanoseconds offset() const;
  /// The largest error of `offset` at the time of the exchanges; afterwards the clocks drift apart.
  Nanoseconds error() const;
  /// True if the bounds include an offset of zero.
  bool may_be_equal() const { return lowest_ <= Nanoseconds(0) && Nanoseconds(0) <= highest_; }

 private:
  std::uint32_t exchanges_ = 0;
  Nanoseconds lowest_{};
  Nanoseconds highest_{};
};

}  // namespace tutti::protocol
