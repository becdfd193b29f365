// A queue of fixed capacity. Only the constructor allocates memory. The caller must not push while
// full() is true.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tutti::trigger {

template <typename T>
class Ring {
 public:
  explicit Ring(std::size_t capacity) : items_(capacity) {}

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == items_.size(); }
  std::size_t size() const { return size_; }
  /// The item that the next push() will add, for the caller to fill; the ring must not be full.
  T& next_free() { return items_[(first_ + size_) % items_.size()]; }
  void push() { ++size_; }
  void push(T item) {
    next_free() = std::move(item);
    push();
  }
  /// The item that is at the front after `i` calls of pop(); `i` must be less than size().
  T& operator[](std::size_t i) { return items_[(first_ + i) % items_.size()]; }
  T& front() { return items_[first_]; }
  const T& front() const { return items_[first_]; }
  void pop() {
    first_ = (first_ + 1) % items_.size();
    --size_;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tutti::trigger
