// Types for ranks, durations and instants, so that the compiler rejects code that confuses them.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace tutti {

/// The number of a member of a communicator, from 0 to size - 1.
enum class Rank : std::uint32_t {};

/// The rank as a plain number, for arithmetic and indexing.
constexpr std::uint32_t index(Rank rank) { return static_cast<std::uint32_t>(rank); }
constexpr Rank rank_of(std::size_t value) { return static_cast<Rank>(value); }

/// A value that is no rank. Functions that accept it document whether it means every peer or an
/// unknown rank.
inline constexpr Rank kNoRank = static_cast<Rank>(0xffff'ffffu);

using Nanoseconds = std::chrono::nanoseconds;

/// An instant of the clock by which an engine runs, which is the host's monotonic clock or, in the
/// simulator, virtual time. Only the difference of two instants is meaningful.
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

/// An instant later than all others, which means "no deadline".
inline constexpr Instant kNever{INT64_MAX};

}  // namespace tutti
