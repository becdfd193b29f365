// Who multicasts when (K7): P ranks in M chains. At step i the group {i, R+i, 2R+i, ...} sends,
// with R = ceil(P/M); a sender that has finished activates its successor in the chain.
//
// The source has P divisible by M; here the last chains may be shorter, or absent.
#pragma once

#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::protocol {

class Sequencer {
 public:
  Sequencer(std::uint32_t size, std::uint32_t chains);

  std::uint32_t size() const { return size_; }
  /// Chains that have a member; at most the number asked for.
  std::uint32_t chains() const { return (size_ + length_ - 1) / length_; }
  /// Ranks of the longest chain: the number of steps, R.
  std::uint32_t steps() const { return length_; }

  std::uint32_t chain_of(Rank rank) const { return index(rank) / length_; }
  std::uint32_t step_of(Rank rank) const { return index(rank) % length_; }
  /// First rank of a chain, and one past its last.
  Rank chain_begin(std::uint32_t chain) const { return rank_of(chain * length_); }
  Rank chain_end(std::uint32_t chain) const;

  /// Whether this rank sends without being activated.
  bool first(Rank rank) const { return step_of(rank) == 0; }
  /// The rank to activate afterwards; kNoRank at the chain's end.
  Rank successor(Rank rank) const;
  /// The rank that activates this one; kNoRank for the first.
  Rank predecessor(Rank rank) const;

 private:
  std::uint32_t size_;
  std::uint32_t length_;
};

}  // namespace tutti::protocol
