// Checks that the keys of all ranks, in rank order, are sorted and are the same keys as before the
// sort. A sum of the keys and a sum of their mixed bits identify the set of keys.
#pragma once

#include <tutti/communicator.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace radix_sort {

/// Mixes every bit of a word into every other bit; a bijection.
std::uint64_t mixed(std::uint64_t word);

/// The fingerprint of a set of keys, independent of their order; sums wrap. The fingerprint of a
/// job is the sum over its ranks.
struct Fingerprint {
  std::uint64_t keys = 0;
  std::uint64_t sum = 0;
  std::uint64_t mixed_sum = 0;

  bool operator==(const Fingerprint&) const = default;
};

template <typename Key>
Fingerprint fingerprint(std::span<const Key> keys);

/// The result of the check, which is the same on every rank.
struct Verdict {
  /// Number of keys that are less than their predecessor on the same rank.
  std::uint64_t disorder_within = 0;
  /// Number of ranks that begin with a key less than the last key of a lower rank.
  std::uint64_t disorder_across = 0;
  bool same_keys = true;

  bool holds() const { return disorder_within == 0 && disorder_across == 0 && same_keys; }
  /// The error text; empty if the check passed.
  std::string text() const;
};

/// Compares the keys of all ranks; a collective. `before` is the fingerprint of this rank's keys
/// from before the sort.
template <typename Key>
tutti::Result<Verdict> check(tutti::Communicator& communicator, std::span<const Key> keys,
                             const Fingerprint& before);

}  // namespace radix_sort
