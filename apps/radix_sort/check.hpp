// Checks the result of a sort: the keys of all ranks, in rank order, must ascend, and no key may be
// lost, added or changed. For the second condition the check compares fingerprints of all keys
// before and after the sort.
#pragma once

#include <tutti/communicator.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace radix_sort {

/// A bijective hash of a word, in which every input bit affects every output bit.
std::uint64_t mixed(std::uint64_t word);

/// A fingerprint of a set of keys that does not depend on their order. Adding the fingerprints of
/// all ranks, modulo 2^64, gives the fingerprint of all keys of the job.
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
  /// Number of ranks whose first key is less than the last key of some lower rank.
  std::uint64_t disorder_across = 0;
  bool same_keys = true;

  bool holds() const { return disorder_within == 0 && disorder_across == 0 && same_keys; }
  /// The error text; empty if the check passed.
  std::string text() const;
};

/// Checks the keys of all ranks after a sort; every rank must call it. `before` is the fingerprint
/// of this rank's keys before the sort.
template <typename Key>
tutti::Result<Verdict> check(tutti::Communicator& communicator, std::span<const Key> keys,
                             const Fingerprint& before);

}  // namespace radix_sort
