// Functions that all measurements share: the common start of all ranks by the host's clock, and
// test data that depends on sender, repetition and position.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>

namespace tutti::bench {

inline constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

/// The time of CLOCK_MONOTONIC, which all processes of a host share.
inline std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kNanosecondsPerSecond + time.tv_nsec;
}

/// Waits until an instant. First sleeps, then yields the core repeatedly, so that ranks that share
/// a core do not delay each other.
inline void wait_until(std::int64_t instant_ns) {
  // The sleep ends this many ns before the awaited instant, because a sleep may end late. Calls of
  // sched_yield() fill the remaining time.
  constexpr std::int64_t kYieldBeforeStartNs = 60'000;
  const std::int64_t wake_ns = instant_ns - kYieldBeforeStartNs;
  const timespec wake{wake_ns / kNanosecondsPerSecond, wake_ns % kNanosecondsPerSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr) == EINTR) {
  }
  while (now_ns() < instant_ns) sched_yield();
}

/// Yields the core for a while. Otherwise the next work of this rank would delay ranks that share
/// the core and have not finished.
inline void stand_aside() {
  constexpr std::int64_t kAsideNs = 200'000;
  const std::int64_t end_ns = now_ns() + kAsideNs;
  while (now_ns() < end_ns) sched_yield();
}

/// One word of the data that `rank` sends in a repetition. It depends on all arguments, so that
/// data of another rank, repetition or position is detected.
inline std::uint64_t pattern_word(int rank, std::uint64_t repetition, std::uint64_t index) {
  std::uint64_t word = (static_cast<std::uint64_t>(rank) << 48) ^ (repetition << 32) ^ index;
  word = (word ^ (word >> 31)) * 0x9E3779B97F4A7C15ULL;
  return word ^ (word >> 29);
}

inline void fill_pattern(std::byte* data, std::size_t bytes, int rank, std::uint64_t repetition) {
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = pattern_word(rank, repetition, at / sizeof(std::uint64_t));
    std::memcpy(data + at, &word, std::min(sizeof(word), bytes - at));
  }
}

/// The number of bytes that differ from those that `rank` sends in this repetition.
inline std::int64_t count_wrong(const std::byte* data, std::size_t bytes, int rank,
                                std::uint64_t repetition) {
  std::int64_t wrong = 0;
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = pattern_word(rank, repetition, at / sizeof(std::uint64_t));
    const std::size_t length = std::min(sizeof(word), bytes - at);
    if (std::memcmp(data + at, &word, length) == 0) continue;
    std::byte expected[sizeof(word)];
    std::memcpy(expected, &word, sizeof(word));
    for (std::size_t i = 0; i < length; ++i) wrong += data[at + i] != expected[i] ? 1 : 0;
  }
  return wrong;
}

/// One element of a rank's operand of a sum. It is a small whole number, so that the floating-point
/// sum is exact in any order of addition.
inline float sum_number(int rank, std::uint64_t repetition, std::uint64_t index) {
  const std::uint64_t mixed = (index ^ (index >> 7) ^ (index >> 13)) + repetition;
  return static_cast<float>(1 + (mixed + 3 * static_cast<std::uint64_t>(rank)) % 8);
}

inline void fill_numbers(std::byte* data, std::size_t bytes, int rank, std::uint64_t repetition) {
  for (std::size_t i = 0; i < bytes / sizeof(float); ++i) {
    const float value = sum_number(rank, repetition, i);
    std::memcpy(data + i * sizeof(float), &value, sizeof value);
  }
}

/// The total size, in bytes, of the floats in `data` that differ from the sum of all ranks'
/// operands. `first` is the index of the first float of `data` in the whole vector.
inline std::int64_t count_wrong_sums(const std::byte* data, std::size_t bytes, std::uint64_t first,
                                     int ranks, std::uint64_t repetition) {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < bytes / sizeof(float); ++i) {
    float sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += sum_number(rank, repetition, first + i);
    if (std::memcmp(data + i * sizeof(float), &sum, sizeof sum) != 0) wrong += sizeof sum;
  }
  return wrong;
}

/// Computes for a fixed number of rounds, and never calls the library under measurement. The number
/// of rounds is fixed, not the duration, so that the work takes longer if another thread uses the
/// core.
inline void do_work(std::uint64_t rounds) {
  volatile double value = 1;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < 200; ++i) value = value * 1.0000001 + 0.0000001;
  }
}

/// The number of rounds that do_work() completes per nanosecond, measured for `duration_ns`.
inline double measure_work_rate(std::int64_t duration_ns) {
  const std::int64_t start_ns = now_ns();
  std::uint64_t rounds = 0;
  std::int64_t elapsed_ns = 0;
  while (elapsed_ns < duration_ns) {
    do_work(16);
    rounds += 16;
    elapsed_ns = now_ns() - start_ns;
  }
  return static_cast<double>(rounds) / static_cast<double>(elapsed_ns);
}

}  // namespace tutti::bench
