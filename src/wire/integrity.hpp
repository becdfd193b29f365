// The integrity word of a datagram: a keyed tag, or a checksum if the user turns tags off.
//
// Keyed tag: UMAC-64 of RFC 4418 with AES-128.
//
//   key      HKDF-SHA-256 of a secret and a context gives the UMAC key of 16 bytes. Each
//            communicator has its own secret. The context contains the identifier of the
//            communicator and the generation of the counter (tag_keys.hpp).
//   message  The payload, followed by the first 24 bytes of the header.
//   nonce    16 bytes, big-endian: stream (4), source (4), counter (8), all of them from the
//            header. The stream is 2^31 + destination rank for the kinds `reliable` and
//            `path_probe`, else kind * 256 + subgroup.
//   tag      The eight bytes of the tag in the order of the RFC.
//
// A forged datagram passes with probability at most 2^-60 per try, provided that no two different
// datagrams of one key have the same nonce. docs/integrity.md has the bound, the measurements and
// the rejected alternatives.
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
struct Block;
struct UmacKey;

/// Size in bytes of the header part that the integrity word covers: everything before the word.
inline constexpr std::size_t kIntegrityHeaderBytes = 24;
/// If a payload lies in two parts, the size of the first part must be a multiple of this many
/// bytes.
inline constexpr std::size_t kIntegrityPartBytes = 32;

/// The nonce of the datagram with the encoded header at `header`, as 16 bytes in memory.
Block nonce_of(const std::byte* header);

/// Computes integrity words without allocating memory. An object never changes, so any number of
/// threads may share it; a copy shares the key.
class Integrity {
 public:
  /// Keyed tags under a key derived from `secret` (16 to 32 bytes) and `context`, a number that
  /// separates the keys of one secret; the secret is not stored. Fails with invalid_argument for a
  /// secret of another size, and with internal or unsupported if libcrypto lacks HKDF or AES-128.
  static Result<Integrity> keyed(std::span<const std::byte> secret, std::uint64_t context);

  /// Integrity words that are CRC-32C checksums, without a key.
  static Integrity crc();

  IntegrityKind kind() const;

  /// Name of the implementation: "umac/avx512", "umac/avx2", "umac/sse2", "umac/portable",
  /// "crc32c/sse4.2" or "crc32c/portable".
  const char* implementation() const;

  /// The integrity word over the first kIntegrityHeaderBytes bytes at `header` and over the
  /// payload. The payload is `payload` followed by `rest`, together at most kMaxMessageBytes bytes.
  /// If `rest` is not empty, the size of `payload` must be a multiple of kIntegrityPartBytes.
  std::uint64_t tag(const std::byte* header, std::span<const std::byte> payload,
                    std::span<const std::byte> rest = {}) const;

  /// Computes the integrity word and copies `payload` to `destination` in one pass; the two must
  /// not overlap. The caller must discard the copied bytes if the word is wrong.
  std::uint64_t copy_and_tag(std::byte* destination, const std::byte* header,
                             std::span<const std::byte> payload) const;

  /// Names of the implementations of `kind` that this processor can run, fastest first.
  static std::vector<std::string_view> implementations(IntegrityKind kind);

  /// Returns a copy of this object that uses the named implementation, for tests and measurements.
  /// Fails with unsupported if implementations(kind()) does not list the name.
  Result<Integrity> with_implementation(std::string_view name) const;

 private:
  Integrity(const IntegrityKernels* kernels, std::shared_ptr<const UmacKey> key);

  const IntegrityKernels* kernels_;  // functions of the implementation, a static table; never null
  std::shared_ptr<const UmacKey> key_;  // null for CRC
};

}  // namespace tutti::wire
