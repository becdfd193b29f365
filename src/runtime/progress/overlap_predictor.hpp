// The overlap predictor: predicts from the last calls of an application whether it will compute
// after it has started a collective.
#pragma once

#include <atomic>

namespace tutti::runtime {

/// Thread-safe. If several threads start and wait at the same time, the prediction is a guess.
class OverlapPredictor {
 public:
  /// Records that a collective has begun; returns true if the application is expected to compute
  /// next.
  bool begun() {
    if (begun_.fetch_add(1, std::memory_order_relaxed) > 0)
      several_.store(true, std::memory_order_relaxed);
    return !several_.load(std::memory_order_relaxed);
  }
  /// Records that the application waits for a collective.
  void waits() {
    if (begun_.exchange(0, std::memory_order_relaxed) == 1)
      several_.store(false, std::memory_order_relaxed);
  }

 private:
  std::atomic<unsigned> begun_{0};    ///< collectives begun since the last wait
  std::atomic<bool> several_{false};  ///< true: several collectives began before the last wait
};

}  // namespace tutti::runtime
