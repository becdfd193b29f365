// AES-128 encryption of single blocks, for callers whose speed does not depend on the speed of AES.
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

/// Encrypts single blocks by libcrypto, which avoids table lookups at secret indices if the
/// processor has instructions for that. Any number of threads may share one cipher; an encryption
/// allocates no memory, and libcrypto wipes the key when the cipher is destroyed.
class BlockCipher {
 public:
  static constexpr std::size_t kBytes = 16;  ///< size of a block, and of a key, in bytes
  using Block = std::array<std::byte, kBytes>;

  BlockCipher() = default;
  BlockCipher(const BlockCipher&) = delete;
  BlockCipher& operator=(const BlockCipher&) = delete;
  ~BlockCipher();

  /// Fails with `unsupported` if libcrypto offers no AES-128.
  static Result<std::unique_ptr<BlockCipher>> aes128(std::span<const std::byte, kBytes> key);

  /// Returns the encrypted block. If libcrypto fails, the result is random bytes, so that an
  /// attacker cannot predict it.
  Block encrypt(const Block& block) const;

 private:
  // An encryption modifies its context, so each encryption takes a context out of `contexts_` and
  // then puts it back. While all kSlots contexts are taken, a further thread busy-polls.
  static constexpr std::size_t kSlots = 8;

  mutable std::array<std::atomic<evp_cipher_ctx_st*>, kSlots> contexts_{};
};

}  // namespace tutti::crypto
