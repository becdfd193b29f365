// Writes and reads the fields of messages that ranks exchange over a bootstrap: 32-bit
// little-endian numbers and raw bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/bootstrap/bootstrap.hpp"

namespace tutti::runtime {

inline void put_u32(Bytes& to, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    to.push_back(static_cast<std::byte>((value >> shift) & 0xff));
  }
}

/// Reads the number at `offset`; `bytes` must have four bytes there.
inline std::uint32_t get_u32(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= std::to_integer<std::uint32_t>(bytes[offset + i]) << (8 * i);
  }
  return value;
}

inline void put(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace tutti::runtime
