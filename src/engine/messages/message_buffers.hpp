// Buffers for messages that are too long for the device to copy when they are posted. A message
// stays in its buffer until the device has sent it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::engine {

/// Reusable buffers of one size. Buffers are numbered from 1 on; the number is the id of the work
/// request that sends the buffer.
class MessageBuffers {
 public:
  explicit MessageBuffers(std::size_t buffer_bytes) : buffer_bytes_(buffer_bytes) {}

  /// Takes a buffer and returns its number. The buffer's address does not change until the buffer
  /// is given back.
  std::uint64_t take() {
    if (free_.empty()) {
      buffers_.push_back(std::make_unique_for_overwrite<std::byte[]>(buffer_bytes_));
      free_.reserve(buffers_.capacity());  // reserved now, so that give_back() never throws
      free_.push_back(buffers_.size());
    }
    const std::uint64_t number = free_.back();
    free_.pop_back();
    return number;
  }
  void give_back(std::uint64_t number) { free_.push_back(number); }
  std::span<std::byte> operator[](std::uint64_t number) {
    return {buffers_[number - 1].get(), buffer_bytes_};
  }

 private:
  std::size_t buffer_bytes_;
  std::vector<std::unique_ptr<std::byte[]>> buffers_;
  std::vector<std::uint64_t> free_;
};

}  // namespace tutti::engine
