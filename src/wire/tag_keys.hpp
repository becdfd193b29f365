// The integrity words of one communicator, with a new tag key for each generation of counters.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "crypto/secret.hpp"
#include "tutti/status.hpp"
#include "wire/header.hpp"
#include "wire/integrity.hpp"

namespace tutti::wire {

/// Selects the tag key by the counter of a datagram. Each generation of 2^40 counters has its own
/// key, so that one key tags at most 2^40 datagrams of a stream. Used by one thread; a copy shares
/// the secret.
class TagKeys {
 public:
  static constexpr unsigned kGenerationBits = 40;
  static std::uint64_t generation_of(std::uint64_t counter) { return counter >> kGenerationBits; }

  /// Integrity words that are CRC-32C checksums.
  TagKeys() = default;
  /// Integrity words that are keyed tags. The keys are derived from `secret` and from
  /// `communicator`, the identifier of the communicator.
  static Result<TagKeys> keyed(std::span<const std::byte> secret, std::uint16_t communicator);

  IntegrityKind kind() const { return latest_.kind(); }
  /// The object that computes the integrity word of a datagram with this counter. Null if the key
  /// of the counter's generation cannot be derived; the datagram then counts as lost.
  const Integrity* of(std::uint64_t counter) {
    const bool same = generation_of(counter) == generation_ || !secret_;
    return same ? &latest_ : of_other(generation_of(counter));
  }
  /// Writes the integrity word of a datagram into its encoded header; the payload may lie in two
  /// parts, as for Integrity::tag. Leaves the header unchanged if the key cannot be derived.
  void seal(std::byte* header, std::span<const std::byte> payload,
            std::span<const std::byte> rest = {}) {
    if (const Integrity* const integrity = of(counter_of(header)))
      encode_tag(integrity->tag(header, payload, rest), header);
  }

 private:
  const Integrity* of_other(std::uint64_t generation);

  std::shared_ptr<const crypto::Secret> secret_;  ///< secret of the keys; null for CRC-32C
  std::uint16_t communicator_ = 0;
  std::uint64_t generation_ = 0;  ///< key generation of `latest_`
  Integrity latest_ = Integrity::crc();
  /// The keys of all other generations used so far. They are kept, because the streams of a
  /// communicator reach a generation at different times.
  std::vector<std::pair<std::uint64_t, Integrity>> others_;
};

}  // namespace tutti::wire
