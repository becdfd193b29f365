// The order of senders in an Allgather ([Khalilov24] 4.1): P ranks form M chains of R = ceil(P/M)
// ranks. At step i the ranks i, R+i, 2R+i, ... send; a rank that has sent its block activates its
// successor in the chain. [Khalilov24] assumes that M divides P; here the last chains may be
// shorter or absent.
#pragma once

#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::protocol {

class Sequencer {
 public:
  Sequencer(std::uint32_t size, std::uint32_t chains);

  std::uint32_t size() const { return size_; }
  /// Number of chains that have a member; at most the requested number.
  std::uint32_t chains() const { return (size_ + length_ - 1) / length_; }
  /// Number of steps: the length of the longest chain.
  std::uint32_t steps() const { return length_; }

  std::uint32_t chain_of(Rank rank) const { return index(rank) / length_; }
  std::uint32_t step_of(Rank rank) const { return index(rank) % length_; }
  /// `chain_begin` is the first rank of a chain, `chain_end` is the rank after the chain's last
  /// one.
  Rank chain_begin(std::uint32_t chain) const { return rank_of(chain * length_); }
  Rank chain_end(std::uint32_t chain) const;

  /// True if `rank` is the first of its chain, so that it sends without an activation.
  bool first(Rank rank) const { return step_of(rank) == 0; }
  /// The rank that `rank` activates; kNoRank for the last rank of a chain.
  Rank successor(Rank rank) const;
  /// The rank that activates `rank`; kNoRank for the first rank of a chain.
  Rank predecessor(Rank rank) const;

 private:
  std::uint32_t size_;
  std::uint32_t length_;
};

}  // namespace tutti::protocol
