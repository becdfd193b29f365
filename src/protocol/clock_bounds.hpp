// How far two clocks are apart, from questions and answers between them.
//
// An answer says what the other clock showed at some moment between question and answer: its
// difference from ours lies between (answer - received) and (answer - sent). Every exchange narrows
// this; nothing is assumed about how long the two ways take.
#pragma once

#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::protocol {

class ClockBounds {
 public:
  /// We asked at `sent` and had the answer at `received`, by our clock; the other's showed `answer`
  /// in between.
  void add(Instant sent, Instant answer, Instant received);

  std::uint32_t exchanges() const { return exchanges_; }
  /// The other clock less ours, taken from the middle of what is possible.
  Nanoseconds offset() const;
  /// What that is wrong by at most. While the bounds were taken: clocks drift apart afterwards.
  Nanoseconds error() const;
  /// Whether the clocks may be one.
  bool may_be_equal() const { return lowest_ <= Nanoseconds(0) && Nanoseconds(0) <= highest_; }

 private:
  std::uint32_t exchanges_ = 0;
  Nanoseconds lowest_{};
  Nanoseconds highest_{};
};

}  // namespace tutti::protocol
