// What an application does after it has begun a collective, as far as it did so before.
#pragma once

#include <atomic>

namespace tutti::runtime {

/// Whether it goes on to compute, or begins another before it waits. Thread-safe; where threads
/// begin and wait at the same time it guesses.
class OverlapPredictor {
 public:
  /// A collective has begun; returns whether the application is taken to compute now.
  bool begun() {
    if (begun_.fetch_add(1, std::memory_order_relaxed) > 0)
      several_.store(true, std::memory_order_relaxed);
    return !several_.load(std::memory_order_relaxed);
  }
  /// It waits for one of them.
  void waits() {
    if (begun_.exchange(0, std::memory_order_relaxed) == 1)
      several_.store(false, std::memory_order_relaxed);
  }

 private:
  std::atomic<unsigned> begun_{0};    ///< since it last waited
  std::atomic<bool> several_{false};  ///< the last time
};

}  // namespace tutti::runtime
