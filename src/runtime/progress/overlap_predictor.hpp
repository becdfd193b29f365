// The overlap predictor predicts what an application does after it has started a collective or
// message: it computes, or it waits for this call at once. The prediction follows from the last
// calls.
#pragma once

#include <algorithm>
#include <atomic>

#include "tutti/units.hpp"

namespace tutti::runtime {

/// Thread-safe. If several threads start and wait at the same time, the predictions are guesses.
class OverlapPredictor {
 public:
  /// An application that waits within this time after a start has not computed in between.
  static constexpr Nanoseconds kSoon{50'000};

  /// Records the start of a collective; returns true if the application is expected to compute
  /// next.
  bool begun(Instant now) {
    started(now);
    if (begun_.fetch_add(1, std::memory_order_relaxed) > 0)
      several_.store(true, std::memory_order_relaxed);
    return !several_.load(std::memory_order_relaxed) && !waits_soon();
  }
  /// Records the start of a message. For a collective, begun() calls this function.
  void started(Instant now) {
    Instant first = kNever;
    if (first_start_.compare_exchange_strong(first, now, std::memory_order_relaxed)) return;
    if (now - first > kSoon) waits_in_a_row_.store(0, std::memory_order_relaxed);
  }
  /// Records that the calling thread began a collective and then yielded its core until `now`. The
  /// time of the yield does not count as computation.
  void yielded(Instant now) { first_start_.store(now, std::memory_order_relaxed); }
  /// Records that the application waits for a collective or message.
  void waits(Instant now) {
    if (begun_.exchange(0, std::memory_order_relaxed) == 1)
      several_.store(false, std::memory_order_relaxed);
    const Instant first = first_start_.exchange(kNever, std::memory_order_relaxed);
    if (first == kNever) return;
    const unsigned before = waits_in_a_row_.load(std::memory_order_relaxed);
    const bool soon = now - first <= kSoon;
    waits_in_a_row_.store(soon ? std::min(before + 1, kEnoughWaits) : 0, std::memory_order_relaxed);
  }
  /// Sets the number of consecutive waits back to 0. Called if other calls are in flight after a
  /// wait, because the application is likely to compute during these calls.
  void forget_waits() { waits_in_a_row_.store(0, std::memory_order_relaxed); }
  /// True if a call has started since the last wait.
  bool start_pending() const { return first_start_.load(std::memory_order_relaxed) != kNever; }
  /// True if the last wait after a start came within kSoon.
  bool waited_soon() const { return waits_in_a_row_.load(std::memory_order_relaxed) > 0; }
  /// True if the application is expected to wait within kSoon after a start.
  bool waits_soon() const {
    return waits_in_a_row_.load(std::memory_order_relaxed) == kEnoughWaits;
  }

 private:
  static constexpr unsigned kEnoughWaits = 3;

  std::atomic<unsigned> begun_{0};    ///< collectives begun since the last wait
  std::atomic<bool> several_{false};  ///< true: several collectives began with no wait between
  std::atomic<Instant> first_start_{kNever};  ///< time of the first start since the last wait
  /// Number of consecutive waits within kSoon of the start; counts up to kEnoughWaits.
  std::atomic<unsigned> waits_in_a_row_{0};
};

}  // namespace tutti::runtime
