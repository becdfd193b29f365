// A queue that allocates memory only on first use and when it must grow.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace tutti::device::sim {

/// A first-in, first-out queue, which doubles its memory when it is full. Indices count from the
/// front.
template <typename T>
class RingQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::uint32_t size() const { return size_; }
  T& operator[](std::uint32_t at) { return slots_[(first_ + at) & (capacity_ - 1)]; }
  const T& operator[](std::uint32_t at) const { return slots_[(first_ + at) & (capacity_ - 1)]; }
  T& front() { return slots_[first_]; }
  T& back() { return (*this)[size_ - 1]; }
  void push_back(T value) {
    if (size_ == capacity_) grow();
    slots_[(first_ + size_++) & (capacity_ - 1)] = std::move(value);
  }
  void pop_front() {
    first_ = (first_ + 1) & (capacity_ - 1);
    --size_;
  }
  void drop_front(std::uint32_t count) {
    first_ = (first_ + count) & (capacity_ - 1);
    size_ -= count;
  }
  void clear() { first_ = size_ = 0; }

 private:
  void grow() {
    const std::uint32_t capacity = capacity_ == 0 ? 4 : capacity_ * 2;
    auto slots = std::make_unique<T[]>(capacity);
    for (std::uint32_t i = 0; i < size_; ++i) slots[i] = std::move((*this)[i]);
    slots_ = std::move(slots);
    capacity_ = capacity;
    first_ = 0;
  }

  std::unique_ptr<T[]> slots_;
  std::uint32_t capacity_ = 0;
  std::uint32_t first_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace tutti::device::sim
