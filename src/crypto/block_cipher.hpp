// AES-128 of single blocks, for constructions whose speed does not depend on it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "tutti/status.hpp"

extern "C" {
struct evp_cipher_ctx_st;
}

namespace tutti::crypto {

/// Encrypts single blocks by libcrypto, which uses no table lookups by secret bytes where the
/// processor has an alternative. Any number of threads may share one cipher; no encryption
/// allocates. libcrypto wipes the key at the end.
class BlockCipher {
 public:
  static constexpr std::size_t kBytes = 16;  ///< size of a block, and of a key, in bytes
  using Block = std::array<std::byte, kBytes>;

  BlockCipher() = default;
  BlockCipher(const BlockCipher&) = delete;
  BlockCipher& operator=(const BlockCipher&) = delete;
  ~BlockCipher();

  /// Fails with unsupported if libcrypto offers no AES-128.
  static Result<std::unique_ptr<BlockCipher>> aes128(std::span<const std::byte, kBytes> key);

  /// Returns the encrypted block; random bytes if libcrypto fails, so that nothing that depends on
  /// the result can be foreseen.
  Block encrypt(const Block& block) const;

 private:
  // An encryption changes its context, so each of the threads that encrypt at the same time takes
  // one out of its slot. One more than kSlots waits for the nanoseconds of an encryption.
  static constexpr std::size_t kSlots = 8;

  mutable std::array<std::atomic<evp_cipher_ctx_st*>, kSlots> contexts_{};
};

}  // namespace tutti::crypto
