// Whether the ranks' keys, one rank after the other, are in order, and are the keys that were there
// before: a sum over all keys and one over their mixed bits, which hardly any other keys have.
#pragma once

#include <tutti/communicator.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace radix_sort {

/// Scatters every bit of a word; one to one.
std::uint64_t mixed(std::uint64_t word);

/// What does not depend on the order of keys; sums wrap. Of all ranks: the sum of theirs.
struct Fingerprint {
  std::uint64_t keys = 0;
  std::uint64_t sum = 0;
  std::uint64_t mixed_sum = 0;

  bool operator==(const Fingerprint&) const = default;
};

template <typename Key>
Fingerprint fingerprint(std::span<const Key> keys);

/// The same on every rank.
struct Verdict {
  std::uint64_t disorder_within = 0;  ///< keys less than the one before, on their rank
  std::uint64_t disorder_across = 0;  ///< ranks whose first key is less than a last key before
  bool same_keys = true;

  bool holds() const { return disorder_within == 0 && disorder_across == 0 && same_keys; }
  /// "" where it holds.
  std::string text() const;
};

/// Compares all ranks' keys; `before` is this rank's fingerprint from before the sort. Collective.
template <typename Key>
tutti::Result<Verdict> check(tutti::Communicator& communicator, std::span<const Key> keys,
                             const Fingerprint& before);

}  // namespace radix_sort
