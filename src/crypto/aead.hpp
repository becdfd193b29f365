// Authenticated encryption of one message by AES-256-GCM.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "crypto/secret.hpp"
#include "tutti/status.hpp"

namespace tutti::crypto {

inline constexpr std::size_t kSealTagBytes = 16;
using Nonce = std::array<std::byte, 12>;

/// The nonce and the associated bytes of one message. A key must use each nonce for one message
/// only; a key that seals a single message may use a nonce of zeros.
struct Sealing {
  Nonce nonce{};
  std::span<const std::byte> associated{};  ///< bytes that are authenticated but not encrypted
};

/// Encrypts `plain`; the result is kSealTagBytes longer than `plain`.
Result<std::vector<std::byte>> seal(const Secret& key, std::span<const std::byte> plain,
                                    const Sealing& how = {});

/// Decrypts `sealed` into `plain`, which must be kSealTagBytes shorter. Fails, with `plain` wiped,
/// if the message was changed or was sealed under another key.
Status unseal(const Secret& key, std::span<const std::byte> sealed, std::span<std::byte> plain,
              const Sealing& how = {});

}  // namespace tutti::crypto
