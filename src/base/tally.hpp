// A counter that one thread writes and any thread may read, as cheap as a plain integer.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {

class SingleWriterCounter {
 public:
  /// Adds to the count; only the writing thread may call this function.
  void add(std::uint64_t amount) {
    count_.store(count_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  SingleWriterCounter& operator++() {
    add(1);
    return *this;
  }
  std::uint64_t value() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace tutti
