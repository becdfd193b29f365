// A pool of equal-sized buffers on a free list, allocated in slabs as demand grows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace tutti::device::rc {

/// A pool with a fixed maximum number of buffers. It owns all buffers; `take` and `give_back` cost
/// O(1).
class BufferPool {
 public:
  BufferPool(std::size_t buffer_bytes, std::size_t max_buffers)
      : buffer_bytes_(buffer_bytes), max_buffers_(max_buffers) {}

  std::size_t buffer_bytes() const { return buffer_bytes_; }

  /// A free buffer of buffer_bytes() bytes; null if the maximum number of buffers is in use.
  std::byte* take() {
    if (free_.empty() && !grow()) return nullptr;
    std::byte* buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give_back(std::byte* buffer) { free_.push_back(buffer); }

 private:
  bool grow() {
    const std::size_t count = std::min(kSlabBuffers, max_buffers_ - allocated_);
    if (count == 0) return false;
    slabs_.push_back(std::make_unique_for_overwrite<std::byte[]>(count * buffer_bytes_));
    allocated_ += count;
    free_.reserve(allocated_);
    for (std::size_t i = 0; i < count; ++i)
      free_.push_back(slabs_.back().get() + i * buffer_bytes_);
    return true;
  }

  static constexpr std::size_t kSlabBuffers = 16;
  std::size_t buffer_bytes_;
  std::size_t max_buffers_;
  std::size_t allocated_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> slabs_;
  std::vector<std::byte*> free_;
};

}  // namespace tutti::device::rc
