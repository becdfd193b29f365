// Virtual time in integer picoseconds. A byte at 400 Gbit/s takes a whole number of picoseconds,
// and sums are exact on every machine.
//
// The largest time, 2^63 picoseconds, is 106 days.
#pragma once

#include <compare>
#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::sim {

/// A duration, or an instant counted from the start of virtual time.
struct Picoseconds {
  std::int64_t count = 0;

  friend constexpr auto operator<=>(Picoseconds, Picoseconds) = default;
  friend constexpr Picoseconds operator+(Picoseconds a, Picoseconds b) {
    return {a.count + b.count};
  }
  friend constexpr Picoseconds operator-(Picoseconds a, Picoseconds b) {
    return {a.count - b.count};
  }
  friend constexpr Picoseconds operator*(Picoseconds a, std::int64_t factor) {
    return {a.count * factor};
  }
  friend constexpr Picoseconds operator*(std::int64_t factor, Picoseconds a) { return a * factor; }
  friend constexpr Picoseconds operator/(Picoseconds a, std::int64_t divisor) {
    return {a.count / divisor};
  }
  constexpr Picoseconds& operator+=(Picoseconds other) { return *this = *this + other; }
};

/// A time later than every instant, which means "not known yet" or "no deadline".
inline constexpr Picoseconds kForever{INT64_MAX};

constexpr Picoseconds picoseconds(std::int64_t count) { return {count}; }
constexpr Picoseconds nanoseconds(std::int64_t count) { return {count * 1'000}; }
constexpr Picoseconds microseconds(std::int64_t count) { return {count * 1'000'000}; }
constexpr Picoseconds milliseconds(std::int64_t count) { return {count * 1'000'000'000}; }

constexpr double to_seconds(Picoseconds time) { return static_cast<double>(time.count) * 1e-12; }
constexpr double to_microseconds(Picoseconds time) { return to_seconds(time) * 1e6; }

/// Converts durations and instants of the engine to picoseconds; kNever becomes kForever.
constexpr Picoseconds from_nanoseconds(Nanoseconds duration) {
  return nanoseconds(duration.count());
}
constexpr Picoseconds from_instant(Instant instant) {
  return instant.nanoseconds > INT64_MAX / 1'000 ? kForever : nanoseconds(instant.nanoseconds);
}
/// Converts virtual time to the engine's nanoseconds, rounded down. If a deadline of the engine is
/// converted to picoseconds and back, it is unchanged.
constexpr Instant to_instant(Picoseconds time) {
  return time == kForever ? kNever : Instant{time.count / 1'000};
}

/// Computes the transmission time of bytes at a given rate, in fixed point with 20 fractional bits.
/// Results are equal on every machine, and exact to a picosecond for up to a million bytes.
class WireSpeed {
 public:
  constexpr WireSpeed() = default;
  /// `bits_per_second` must lie between 10^7 and 10^13.
  explicit constexpr WireSpeed(std::uint64_t bits_per_second)
      : scaled_per_byte_(((std::uint64_t{8'000'000'000'000} << 20) + bits_per_second / 2) /
                         bits_per_second) {}

  constexpr Picoseconds time_of(std::uint64_t bytes) const {
    return {static_cast<std::int64_t>((bytes * scaled_per_byte_) >> 20)};
  }

 private:
  std::uint64_t scaled_per_byte_ = 0;
};

}  // namespace tutti::sim
