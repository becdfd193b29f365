// UMAC-64 of RFC 4418 with AES-128, the construction of the keyed tag. Internal to src/wire.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tutti/status.hpp"
#include "wire/integrity_kernels.hpp"

namespace tutti::wire {

inline constexpr std::size_t kUmacKeyBytes = crypto::BlockCipher::kBytes;
/// Largest message in bytes; longer ones need POLY-128 of RFC 4418, which is not implemented.
inline constexpr std::size_t kUmacMaxBytes = std::size_t{1} << 24;

/// The keys of both hash streams and of the pads, derived from one UMAC key.
struct UmacKey {
  NhKey nh;
  std::array<std::uint64_t, 2> polynomial{};  ///< keys of the second layer (POLY)
  /// Inner-product keys of the third layer. They multiply only the lower half of its input, because
  /// the upper half is zero for messages of at most kUmacMaxBytes.
  std::array<std::array<std::uint64_t, 4>, 2> inner{};
  std::array<std::uint32_t, 2> translation{};  ///< words XORed with the third layer's results
  PadKey pad;

  UmacKey() = default;
  UmacKey(const UmacKey&) = delete;
  UmacKey& operator=(const UmacKey&) = delete;
  ~UmacKey();

  /// Fails with unsupported if libcrypto offers no AES-128.
  static Result<std::shared_ptr<const UmacKey>> derive(
      std::span<const std::byte, kUmacKeyBytes> key);
};

/// A message: the bytes of `first`, then of `rest`, then of `end`. If `rest` is not empty, `first`
/// must consist of whole groups.
struct UmacMessage {
  std::span<const std::byte> first{};
  std::span<const std::byte> rest{};
  std::span<const std::byte> end{};  ///< at most kNhGroupBytes
};

/// The pad of a nonce: the first or the second half of the encrypted `block`. Nonces that differ
/// only in their last bit have the same block.
struct PadChoice {
  Block block;
  bool second_half = false;

  /// Returns the block to encrypt for a nonce of 16 bytes, and which half of the result is the pad.
  static PadChoice of(Block nonce);
  /// Does the same for a nonce of 1 to 16 bytes.
  static PadChoice of(std::span<const std::byte> nonce);
};

/// The tag of a message of at most kUmacMaxBytes. The bytes of the returned word lie in memory in
/// the order of the RFC.
std::uint64_t umac64(const IntegrityKernels& kernels, const UmacKey& key, const PadChoice& pad,
                     const UmacMessage& message);

/// Does the same as `umac64`, and also copies `first` to `destination`; the two must not overlap,
/// and `rest` must be empty.
std::uint64_t umac64_copy(const IntegrityKernels& kernels, const UmacKey& key, const PadChoice& pad,
                          std::byte* destination, const UmacMessage& message);

}  // namespace tutti::wire
