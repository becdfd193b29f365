// A count that one thread keeps and any thread reads: as cheap as a plain one.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {

class SingleWriterCounter {
 public:
  /// By the one thread that counts.
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
