// Predicts whether an application computes after it has started a collective, from its last calls.
#pragma once

#include <atomic>

namespace tutti::runtime {

/// Thread-safe; with threads that start and wait at the same time the prediction is a guess.
class OverlapPredictor {
 public:
  /// A collective has begun; returns whether the application is expected to compute now.
  bool begun() {
    if (begun_.fetch_add(1, std::memory_order_relaxed) > 0)
      several_.store(true, std::memory_order_relaxed);
    return !several_.load(std::memory_order_relaxed);
  }
  /// The application waits for a collective.
  void waits() {
    if (begun_.exchange(0, std::memory_order_relaxed) == 1)
      several_.store(false, std::memory_order_relaxed);
  }

 private:
  std::atomic<unsigned> begun_{0};    ///< collectives since the last wait
  std::atomic<bool> several_{false};  ///< several began before the last wait
};

}  // namespace tutti::runtime
