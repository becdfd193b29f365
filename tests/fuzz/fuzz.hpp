// Helpers that the fuzz targets share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

namespace tutti::fuzz {

/// Ends the process if an invariant does not hold, in debug and in optimised builds.
inline void require(bool holds) {
  if (!holds) std::abort();
}

/// A fuzzer's input, which is read from front to back; reads beyond its end return 0.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}
  Input(const std::uint8_t* data, std::size_t size) : Input(std::as_bytes(std::span(data, size))) {}

  bool empty() const { return bytes_.empty(); }
  template <typename Value>
  Value take() {
    Value value{};
    const auto part = take_bytes(sizeof value);
    std::memcpy(&value, part.data(), part.size());
    return value;
  }
  std::span<const std::byte> take_bytes(std::size_t count) {
    const auto part = bytes_.first(count < bytes_.size() ? count : bytes_.size());
    bytes_ = bytes_.subspan(part.size());
    return part;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tutti::fuzz
