// Secret bytes: drawn at random, compared in constant time, and wiped when no longer needed.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "tutti/status.hpp"

namespace tutti::crypto {

/// Overwrites `bytes` by a call that the compiler cannot optimise away.
void wipe(std::span<std::byte> bytes);

/// True if `a` and `b` have equal bytes. The time depends only on their sizes.
bool equal(std::span<const std::byte> a, std::span<const std::byte> b);

/// Fills `bytes` with random bytes for keys. Fails if the system gives none.
Status fill_random(std::span<std::byte> bytes);

/// A secret of 32 bytes, such as a key. It is copied only by `copy`, and is wiped when it is moved
/// from or destroyed.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  Secret() = default;  ///< makes a secret whose bytes are all zero
  explicit Secret(std::span<const std::byte, kBytes> bytes);
  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  ~Secret();
  static Result<Secret> random();

  Secret copy() const { return Secret(bytes()); }
  std::span<const std::byte, kBytes> bytes() const { return bytes_; }
  std::span<std::byte, kBytes> writable() { return bytes_; }

 private:
  std::array<std::byte, kBytes> bytes_{};
};

}  // namespace tutti::crypto
