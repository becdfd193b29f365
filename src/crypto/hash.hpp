// SHA-256, and the derivation of keys by HKDF-SHA-256 (RFC 5869).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "crypto/secret.hpp"
#include "tutti/status.hpp"

namespace tutti::crypto {

using Digest = std::array<std::byte, 32>;

Result<Digest> sha256(std::span<const std::byte> bytes);

/// The inputs of HKDF, named as in RFC 5869; `key` is the IKM.
struct HkdfInput {
  std::span<const std::byte> key{};
  std::span<const std::byte> salt{};
  std::span<const std::byte> info{};
};

/// Fills `out`, of at most 8160 bytes, by HKDF-Extract and HKDF-Expand.
Status hkdf(const HkdfInput& input, std::span<std::byte> out);

/// Fills `out` with bytes derived from `key`; different labels or contexts give independent bytes.
Status derive(std::span<const std::byte> key, std::string_view label, std::uint64_t context,
              std::span<std::byte> out);
Result<Secret> derive(const Secret& key, std::string_view label, std::uint64_t context = 0);

}  // namespace tutti::crypto
