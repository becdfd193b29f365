// Units as types: a rank, a byte count and a duration never mix by accident.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace tutti {

/// A process of a communicator, 0 .. size-1.
enum class Rank : std::uint32_t {};

/// The value of a rank, for arithmetic and indexing.
constexpr std::uint32_t index(Rank rank) { return static_cast<std::uint32_t>(rank); }
constexpr Rank rank_of(std::size_t value) { return static_cast<Rank>(value); }

/// Stands for "no rank": every peer, or an unknown rank, as the use says.
inline constexpr Rank kNoRank = static_cast<Rank>(0xffff'ffffu);

using Nanoseconds = std::chrono::nanoseconds;

/// An instant of the clock by which an engine runs: the host's monotonic clock, or virtual time in
/// the simulator. Only differences between instants have a meaning.
struct Instant {
  std::int64_t nanoseconds = 0;

  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Instant operator+(Instant t, Nanoseconds d) {
    return {t.nanoseconds + d.count()};
  }
  friend constexpr Instant operator-(Instant t, Nanoseconds d) {
    return {t.nanoseconds - d.count()};
  }
  friend constexpr Nanoseconds operator-(Instant a, Instant b) {
    return Nanoseconds(a.nanoseconds - b.nanoseconds);
  }
};

/// An instant that never comes: "no deadline".
inline constexpr Instant kNever{INT64_MAX};

}  // namespace tutti
