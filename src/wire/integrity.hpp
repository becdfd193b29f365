// The integrity word of a datagram: a keyed tag, or a checksum if the user turns tags off.
//
// Keyed tag, 64 bits, of a 24-byte header and a payload of `size` bytes (all words little-endian):
//
//   keys    HKDF-SHA-256 of the job's secret, with the communicator's identifier as context, gives
//           an NH key of 2080 bytes, a Poly1305 key r (clamped) and an AES-128 key k.
//   blocks  The payload is cut into blocks of 2048 bytes, the last one zero padded to 32 bytes.
//   NH      A block is pairs (x_i, y_i) of 32-bit words, the NH key is pairs (p_i, q_i).
//           Pass t = 0, 1:
//             N_t = sum over i of (x_i + p_{i+4t} mod 2^32) * (y_i + q_{i+4t} mod 2^32)   mod 2^64
//           A block's value is the 16 bytes N_0 || N_1; `size` is added to N_1 of the last block.
//   H       For one block: its value. For an empty payload: 16 zero bytes. For more blocks:
//           Poly1305 of their values in order, with the key r and s = 0.
//   tag     The first 8 bytes of AES_k(AES_k(AES_k(h) xor h') xor H), where h || h' is the header
//           zero padded to 32 bytes: the CBC-MAC of h || h' || H.
//
// Two payloads collide in H with probability at most 2^-62 (2^-64 for payloads of one size), and
// the CBC-MAC of three blocks binds H to the whole header. A forged datagram passes with probability
// at most 2^-61 per try. No nonce is needed: a header repeated with different payloads leaks
// nothing unless their H collide. docs/integrity.md has the argument, the measurements and rejected
// alternatives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tutti/status.hpp"
#include "wire/integrity_kind.hpp"

namespace tutti::wire {

struct IntegrityKernels;
struct TagKey;

/// Size of the header part that the integrity word covers: everything before the word.
inline constexpr std::size_t kIntegrityHeaderBytes = 24;

/// Computes integrity words. Immutable, so any number of threads may share it; a copy shares the
/// key, and no call allocates.
class Integrity {
 public:
  /// Keyed tags under a key derived from `secret` (16 to 32 bytes) and `context`, the
  /// communicator's identifier; the secret is not stored. Fails with invalid_argument for a secret
  /// of another size, and with internal if libcrypto cannot derive keys.
  static Result<Integrity> keyed(std::span<const std::byte> secret, std::uint64_t context);

  /// Integrity words that are CRC-32C checksums, without a key.
  static Integrity crc();

  IntegrityKind kind() const;

  /// Name of the implementation: "nh/avx2", "nh/sse2", "nh/portable", "crc32c/sse4.2" or
  /// "crc32c/portable".
  const char* implementation() const;

  /// The integrity word over the kIntegrityHeaderBytes at `header` and over `payload`.
  std::uint64_t tag(const std::byte* header, std::span<const std::byte> payload) const;

  /// Computes the integrity word and copies `payload` to `destination` in one pass; the two must
  /// not overlap. The bytes are copied in any case, so a caller that finds the word wrong must
  /// discard them.
  std::uint64_t copy_and_tag(std::byte* destination, const std::byte* header,
                             std::span<const std::byte> payload) const;

  /// Names of the implementations of `kind` that this processor can run, fastest first.
  static std::vector<std::string_view> implementations(IntegrityKind kind);

  /// A copy that uses the named implementation, for tests and measurements. Fails with unsupported
  /// if implementations(kind()) does not list the name.
  Result<Integrity> with_implementation(std::string_view name) const;

 private:
  Integrity(const IntegrityKernels* kernels, std::shared_ptr<const TagKey> key);

  const IntegrityKernels* kernels_;    // static, never null
  std::shared_ptr<const TagKey> key_;  // null for CRC
};

}  // namespace tutti::wire
