#include "protocol/clock_bounds.hpp"

#include <algorithm>
#include <utility>

namespace tutti::protocol {

void ClockBounds::add(Instant sent, Instant answer, Instant received) {
  const Nanoseconds low = answer - received;
  const Nanoseconds high = answer - sent;
  const bool first = exchanges_++ == 0;
  lowest_ = first ? low : std::max(lowest_, low);
  highest_ = first ? high : std::min(highest_, high);
  // The lower bound can exceed the upper one if a clock's rate was adjusted between two exchanges.
  if (lowest_ > highest_) std::swap(lowest_, highest_);
}

Nanoseconds ClockBounds::offset() const { return lowest_ + (highest_ - lowest_) / 2; }

Nanoseconds ClockBounds::error() const { return (highest_ - lowest_ + Nanoseconds(1)) / 2; }

}  // namespace tutti::protocol
